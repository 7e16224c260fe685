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
