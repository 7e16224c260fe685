import { randomBytes } from "node:crypto";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import type { World } from "../../support/world.ts";
import { inChromium, newPage, signIn } from "./chromium.ts";

type User = Awaited<ReturnType<World["member"]>>;

inChromium("a user's own pages in a browser", (stage) => {
  async function signedIn(user: User, path = "/profile"): Promise<Page> {
    const { page } = await newPage(stage, { javaScriptEnabled: false });
    await page.goto(stage.world.origin + path);
    await signIn(page, user);
    await page.waitForURL(stage.world.origin + path);
    return page;
  }

  test("the password is changed, and the other sessions end", async () => {
    const user = await stage.world.member("reader");
    const page = await signedIn(user, "/profile/password");
    const change = async (current: string, next: string) => {
      await page.getByLabel("Current password").fill(current);
      await page.getByLabel("New password").fill(next);
      await page.getByRole("button", { name: "Change the password" }).click();
    };
    await change("not-the-password", "a-longer-second-password");
    expect(await page.getByRole("alert").textContent()).toMatch(/password/);
    await change(user.password, "short");
    expect(await page.getByRole("alert").textContent()).toMatch(/12/);
    await change(user.password, "a-longer-second-password");
    await page.getByText("Your password has been changed.").waitFor();
    expect((await stage.world.call("GET", "/me", undefined, { token: user.token })).status).toBe(401);
  });

  test("somebody who was invited by a link chooses a password, and signs in with it", async () => {
    const email = `new-${randomBytes(6).toString("hex")}@example.com`;
    const invited = await stage.world.must<{ link: string }>("POST", `${stage.world.A}/members`, {
      email,
      role: "reader",
    });
    const { page } = await newPage(stage);
    await page.goto(invited.link);
    await page.getByRole("heading", { name: /^Join / }).waitFor();
    expect(await page.getByLabel("E-mail").inputValue()).toBe(email);
    await page.getByLabel("Password", { exact: true }).fill("short");
    await page.getByRole("button", { name: "Accept the invitation" }).click();
    await expect.poll(() => page.getByRole("alert").textContent()).toMatch(/12/);
    const password = "a-password-of-somebody-new";
    await page.getByLabel("Password", { exact: true }).fill(password);
    await page.getByRole("button", { name: "Accept the invitation" }).click();
    await page.getByRole("heading", { name: "Welcome" }).waitFor();
    await page.getByRole("link", { name: "Your profile" }).click();
    await signIn(page, { email, password });
    await page.waitForURL(/console|profile/);
    await page.goto(invited.link);
    await page.getByRole("heading", { name: "This link does not work" }).waitFor();
  });

  test("sessions are listed and end one by one", async () => {
    const user = await stage.world.member("reader");
    const page = await signedIn(user, "/profile/sessions");
    expect(await page.getByRole("listitem").count()).toBe(2);
    expect(await page.getByText("this one").count()).toBe(1);
    const end = page.getByRole("button", { name: /^End session/ });
    expect(await end.isVisible()).toBe(false);
    await page.getByText("End…").click();
    await end.click();
    await page.getByText("The session has ended.").waitFor();
    expect(await page.getByRole("listitem").count()).toBe(1);
    expect((await stage.world.call("GET", "/me", undefined, { token: user.token })).status).toBe(401);
  });

  test("an invitation is accepted, another declined", async () => {
    const user = await stage.world.member("reader");
    const owner = await stage.world.member("reader");
    const handles = ["one", "two"].map((name) => `${name}-${user.userId.slice(-12)}`);
    for (const handle of handles) {
      const account = await stage.world.must<{ id: string }>("POST", "/accounts", { handle }, owner.token);
      const invited = { email: user.email, role: "editor" };
      await stage.world.must("POST", `/accounts/${account.id}/members`, invited, owner.token);
    }
    const page = await signedIn(user, "/profile/invitations");
    expect(await page.getByRole("listitem").first().textContent()).toContain(
      `${owner.email} invites you as editor`,
    );
    await page.getByRole("button", { name: `Accept the invitation to ${handles[0]}` }).click();
    await page.getByText("You are now a member of the account.").waitFor();
    await page.getByRole("button", { name: `Decline the invitation to ${handles[1]}` }).click();
    await page.getByText("You declined the invitation.").waitFor();
    await page.getByRole("link", { name: "Profile" }).click();
    expect(await page.getByRole("listitem").filter({ hasText: handles[0]! }).textContent()).toContain(
      "editor",
    );
    expect(await page.getByText(handles[1]!).count()).toBe(0);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("You are signed out.").waitFor();
    await page.goto(`${stage.world.origin}/profile`);
    expect(new URL(page.url()).pathname).toBe("/signin");
  });
});
