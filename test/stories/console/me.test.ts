import { expect, test } from "vitest";
import { allow, atProgram, inChromium, nativeApp, newPage, toConsent } from "../pages/chromium.ts";
import { openConsole, screen } from "./browser.ts";

inChromium("the console: the user, and what has access", (stage) => {
  test("a name and a password are changed, a session is ended, an account is left, a user is deleted", async () => {
    const { world } = stage;
    const user = await world.member("editor");
    const { email } = user;
    const { page, complaints } = await openConsole(stage, screen("/me"), { user });
    const credentials = { email, password: user.password };
    const elsewhere = await world.must<{ token: string }>("POST", "/sessions", credentials, "");
    await page.getByLabel("Your name").fill("Ada <b>L</b>");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved.").waitFor();
    const me = await world.must<{ displayName: string }>("GET", "/me", undefined, elsewhere.token);
    expect(me.displayName).toBe("Ada <b>L</b>");

    await page.getByRole("link", { name: "Sessions" }).click();
    await page.getByRole("row").filter({ hasText: "this session" }).waitFor();
    const others = page.getByRole("button", { name: /^End / });
    await others.first().waitFor();
    const count = await others.count();
    await others.first().click();
    await page.getByRole("dialog").getByRole("button", { name: "End" }).click();
    await expect.poll(() => others.count()).toBe(count - 1);

    await page.getByRole("link", { name: "Profile" }).first().click();
    const password = "another password of theirs";
    const change = async (current: string) => {
      await page.getByLabel("Current password").fill(current);
      await page.getByLabel("New password").fill(password);
      await page.getByRole("button", { name: "Change the password" }).click();
    };
    await change("not this one");
    await page.getByRole("alert").waitFor();
    complaints.length = 0;
    await change(user.password);
    await page.getByText("Changed. Everywhere else you are signed out.").waitFor();
    expect(await page.getByLabel("Current password").inputValue()).toBe("");
    expect((await world.call("GET", "/me", undefined, { token: elsewhere.token })).status).toBe(401);

    await page.getByRole("button", { name: /^Leave / }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Leave" }).click();
    await page.getByRole("heading", { name: "Accounts" }).waitFor({ state: "detached" });
    expect((await world.call("GET", `${world.A}/members/${user.userId}`)).status).toBe(404);
    expect(complaints).toEqual([]);

    await page.getByRole("button", { name: "Delete your user" }).click();
    const confirm = page.getByRole("dialog").getByRole("button", { name: "Delete your user" });
    await page.getByLabel("Your password").fill("not this one");
    await confirm.click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Your password").fill(password);
    await confirm.click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect((await world.call("POST", "/sessions", { email, password }, { token: "" })).status).toBe(401);
    await page.context().close();
  });

  test("an invitation is sent again and accepted", async () => {
    const { world } = stage;
    const guest = await world.member("reader");
    await world.must("DELETE", `${world.A}/members/${guest.userId}`);
    const { page, complaints } = await openConsole(stage, screen(`${world.A}/members`));
    await page.getByRole("button", { name: "Invite" }).click();
    await page.getByLabel("E-mail").fill(guest.email);
    await page.getByLabel("Role", { exact: true }).selectOption("editor");
    await page.getByRole("dialog").getByRole("button", { name: "Invite" }).click();
    const first = await page.getByLabel("Link").inputValue();
    await page.keyboard.press("Escape");
    await page.getByText(/^expires/).waitFor();
    await page.getByRole("button", { name: `Send again ${guest.email}` }).click();
    const second = await page.getByLabel("Link").inputValue();
    expect(second).toContain("/invitation#");
    expect(second).not.toBe(first);
    expect(complaints).toEqual([]);
    await page.context().close();

    const theirs = await openConsole(stage, screen("/me"), { user: guest });
    await theirs.page.getByText(", as editor, by owner@example.com").waitFor();
    await theirs.page.getByRole("button", { name: /^Accept / }).click();
    await theirs.page.getByRole("button", { name: /^Leave / }).waitFor();
    expect(await world.must("GET", `${world.A}/members/${guest.userId}`)).toMatchObject({ role: "editor" });
    expect(theirs.complaints).toEqual([]);
    await theirs.page.context().close();
  });

  test("who gave an application access ends that, and so does an owner for everybody", async () => {
    const { world } = stage;
    const user = await world.member("editor");
    const { page, complaints } = await openConsole(stage, screen("/me/mcp-grants"), { user });
    await page.getByRole("heading", { name: "No application has access" }).waitFor();
    const connect = async () => {
      const { page: other } = await newPage(stage);
      await toConsent(other, await nativeApp(stage), user);
      await allow(other);
      await atProgram(other, stage);
      await other.context().close();
    };
    await connect();
    await page.reload();
    await page.getByRole("row").filter({ hasText: "reader" }).waitFor();
    await page.getByRole("button", { name: /^Revoke / }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("heading", { name: "No application has access" }).waitFor();
    await connect();

    const owner = await openConsole(stage, screen(`${world.A}/members`));
    await owner.page.getByRole("link", { name: "Applications" }).click();
    const row = owner.page.getByRole("row").filter({ hasText: "Notes for Berth" });
    await row.getByRole("button", { name: /^Revoke / }).click();
    await owner.page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await row.waitFor({ state: "detached" });
    await page.reload();
    await page.getByRole("heading", { name: "No application has access" }).waitFor();
    expect(owner.complaints).toEqual([]);
    await owner.page.context().close();
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
