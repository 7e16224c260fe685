import { expect, test } from "vitest";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen } from "./browser.ts";

const TOKEN = "ghp_a-token-of-this-test";

inChromium("the console: registries", (stage) => {
  test("a login is stored, its token replaced and never shown, and deleted", async () => {
    const { world } = stage;
    const { page, complaints } = await openConsole(stage, screen(`${world.A}/members`));
    await page.getByRole("link", { name: "Registries" }).click();
    await page.getByRole("heading", { name: "No logins yet" }).waitFor();
    const press = (name: string) => page.getByRole("button", { name }).first().click();
    const dialog = page.getByRole("dialog");
    await press("New login");
    await dialog.getByLabel("Registry").fill("https://ghcr.io/shop");
    await dialog.getByLabel("User").fill("shop-deploy");
    await dialog.getByLabel("Token or password").fill(TOKEN);
    await dialog.getByRole("button", { name: "Create" }).click();
    await dialog.getByRole("alert").getByText("host").first().waitFor();
    await dialog.getByLabel("Registry").fill("GHCR.io");
    await dialog.getByRole("button", { name: "Create" }).click();
    const row = page.getByRole("row").filter({ hasText: "ghcr.io" });
    await row.getByText("shop-deploy").waitFor();
    expect(await page.content()).not.toContain(TOKEN);

    await row.getByRole("button", { name: "Replace the token" }).click();
    expect(await dialog.getByLabel("Token or password").inputValue()).toBe("");
    await dialog.getByLabel("User").fill("robot");
    await dialog.getByLabel("Token or password").fill(`${TOKEN}-2`);
    await dialog.getByRole("button", { name: "Replace the token" }).click();
    await row.getByText("robot").waitFor();
    const { data } = await world.must<{ data: object[] }>("GET", `${world.A}/registries`);
    expect(data).toMatchObject([{ host: "ghcr.io", user: "robot", rotatedAt: expect.any(String) }]);

    await row.getByRole("button", { name: "Delete" }).click();
    await dialog.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("heading", { name: "No logins yet" }).waitFor();
    expect(complaints.filter((complaint) => !complaint.includes("422"))).toEqual([]);
    await page.context().close();
  });
});
