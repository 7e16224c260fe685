import { expect, test } from "vitest";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen } from "./browser.ts";

inChromium("the console: members and tokens", (stage) => {
  test("somebody is invited, gets another role and is removed; the last owner stays one", async () => {
    const { world } = stage;
    const editor = await world.member("editor");
    const { page, complaints } = await openConsole(stage, screen(`${world.A}/members`));
    const row = page.getByRole("row").filter({ hasText: editor.email });
    await row.getByRole("combobox").selectOption("reader");
    const roleOf = async () => {
      const path = `${world.A}/members/${editor.userId}`;
      return (await world.must<{ role: string }>("GET", path)).role;
    };
    await expect.poll(roleOf).toBe("reader");
    await row.getByRole("button", { name: "Remove" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await row.waitFor({ state: "detached" });

    const email = `new-${Date.now()}@example.com`;
    await page.getByRole("button", { name: "Invite" }).click();
    await page.getByLabel("E-mail").fill(email);
    await page.getByLabel("Role", { exact: true }).selectOption("editor");
    await page.getByRole("dialog").getByRole("button", { name: "Invite" }).click();
    expect(await page.getByLabel("Link").inputValue()).toContain(`${world.origin}/invitation#`);
    await page.keyboard.press("Escape");
    await page.getByText(`${email}, editor`).waitFor();
    await page.getByRole("button", { name: `Withdraw ${email}` }).click();
    await page.getByText(`${email}, editor`).waitFor({ state: "detached" });
    expect(complaints).toEqual([]);

    // The last owner stays one.
    await page
      .getByRole("row")
      .filter({ hasText: "owner@example.com" })
      .getByRole("combobox")
      .selectOption("reader");
    await page.getByRole("alert").waitFor();
    await page.context().close();
  });

  test("all invitations can be reached; a question that is asked again does not show why it failed before", async () => {
    const { world } = stage;
    const reader = await world.member("reader");
    const emails = ["first", "second"].map((name) => `${name}-${Date.now()}@example.com`);
    for (const email of emails) await world.must("POST", `${world.A}/members`, { email, role: "reader" });
    const { page } = await openConsole(stage, screen(`${world.A}/projects`));
    await page.route(/\/invitations\?/, (route) =>
      route.continue({ url: route.request().url().replace("limit=50", "limit=1") }),
    );
    await page.goto(world.origin + screen(`${world.A}/members`));
    await page.getByText(`${emails[1]}, reader`).waitFor();
    expect(await page.getByText(`${emails[0]}, reader`).count()).toBe(0);
    await page.getByRole("button", { name: "Show more" }).click();
    await page.getByText(`${emails[0]}, reader`).waitFor();

    const path = `${world.A}/members/${reader.userId}`;
    const error = { code: "conflict", message: "Somebody else changes this.", requestId: "r", details: [] };
    await page.route(`**${path}`, (route) => route.fulfill({ status: 409, json: { error } }), { times: 1 });
    const dialog = page.getByRole("dialog");
    const ask = () =>
      page.getByRole("row").filter({ hasText: reader.email }).getByRole("button", { name: "Remove" }).click();
    await ask();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await dialog.getByRole("alert").waitFor();
    await page.keyboard.press("Escape");
    await ask();
    await dialog.getByRole("button", { name: "Remove" }).waitFor();
    expect(await dialog.getByRole("alert").count()).toBe(0);
    await dialog.getByRole("button", { name: "Remove" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.context().close();
  });

  test("a token is shown once, works as far as it reaches, and is revoked", async () => {
    const { world } = stage;
    const user = await world.member("editor");
    const { page, complaints } = await openConsole(stage, screen("/me/tokens"), { user });
    await page.getByRole("heading", { name: "No tokens yet" }).waitFor();
    await page.getByRole("button", { name: "New token" }).click();
    await page.getByLabel("Name").fill("ci");
    await page.getByLabel("At most as").selectOption("reader");
    await page.getByRole("button", { name: "Create" }).click();
    const token = await page.getByLabel("Token", { exact: true }).inputValue();
    expect((await world.call("GET", `${world.A}/projects`, undefined, { token })).status).toBe(200);
    expect((await world.call("POST", `${world.A}/projects`, { name: "x" }, { token })).status).toBe(403);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    const row = page.getByRole("row").filter({ hasText: "ci" });
    await row.getByText("all your accounts, reader").waitFor();
    expect(await page.content()).not.toContain(token);
    await row.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await row.waitFor({ state: "detached" });
    expect((await world.call("GET", "/me", undefined, { token })).status).toBe(401);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
