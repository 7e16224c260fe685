import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { texts } from "../../../clients/console/texts.ts";
import { accessibilityFaults } from "../../support/browser.ts";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";

inChromium("the console: the audit log", (stage) => {
  test("who did what is said in words, filtered by person, event and day, and read page by page", async () => {
    const { world } = stage;
    const { E, P, S } = await world.environment();
    const editor = await world.member("editor");
    await world.must("PATCH", "/me", { displayName: "Eve <i>E</i>" }, editor.token);
    await serviceOf(world, E, "web");
    for (let n = 0; n < 60; n++)
      await world.must("POST", `${P}/variables`, { name: `V${n}`, value: "1" }, editor.token);
    const batch = { set: [{ name: "A", value: "1" }], unset: ["V0"], confirmImpact: true };
    await world.must("POST", `${P}/variables/batch`, batch, editor.token);
    await world.must("POST", `${S("web")}/deploy`, { image: "registry.example.com/web:1" });
    await world.must("PATCH", `${world.A}/members/${editor.userId}`, { role: "reader" });

    const { page, complaints } = await openConsole(stage, screen(`${world.A}/members`));
    await page.getByRole("link", { name: "Audit log" }).click();
    const row = (...words: string[]) =>
      words.reduce((rows, hasText) => rows.filter({ hasText }), page.getByRole("row"));
    await row("changed the role of Eve <i>E</i> from editor to reader").waitFor();
    await row("deployed version 1 of web").first().waitFor();
    await row("Eve <i>E</i>", "changed variables of the project; set A; deleted V0").waitFor();
    await row("created the variable V59 of the project").waitFor();
    expect(await row("created the variable V0 of").count()).toBe(0);
    await page.getByRole("button", { name: "Show older records" }).click();
    await row("created the variable V0 of the project").waitFor();
    await row("created the service web").first().waitFor();

    await page.getByLabel("Who").selectOption("Eve <i>E</i>");
    await row("created the service web").first().waitFor({ state: "detached" });
    await row("created the variable V59 of the project").waitFor();
    await page.getByLabel("What").selectOption("variable.batch");
    await expect.poll(() => page.getByRole("row").count()).toBe(2);
    // The filter is in the address.
    await page.reload();
    await row("set A; deleted V0").waitFor();
    expect(await page.getByRole("row").count()).toBe(2);
    await page.getByLabel("Since").fill("2999-01-01");
    await page.getByRole("heading", { name: "Nothing matches" }).waitFor();
    await page.getByLabel("Since").fill("2020-01-01");
    await row("set A; deleted V0").waitFor();
    await page.getByLabel("Who").selectOption("everybody");
    await page.getByLabel("What").selectOption("everything");
    await row("deployed version 1 of web").first().waitFor();
    // What an address has that is no filter, is none.
    await page.goto(`${world.origin}${screen(`${world.A}/audit-events`)}?since=2026-13-45&action=["x"]`);
    await row("deployed version 1 of web").first().waitFor();
    expect(await page.getByLabel("Since").inputValue()).toBe("");
    expect(complaints).toEqual([]);
    await page.context().close();

    const reader = await openConsole(stage, screen(`${world.A}/audit-events`), { user: editor });
    await reader.page.getByText("this needs owner").waitFor();
    expect(await reader.page.getByRole("link", { name: "Audit log" }).count()).toBe(0);
    await reader.page.context().close();
  });

  test("an owner sees who did what with a variable at each scope, never a value; others have no such button", async () => {
    const { world } = stage;
    const { E, P, S } = await world.environment();
    const editor = await world.member("editor");
    await world.must("PATCH", "/me", { displayName: "Eve <i>E</i>" }, editor.token);
    await serviceOf(world, E, "web");
    const sealed = { name: "KEY", value: "never-shown-1", sensitive: true };
    await world.must("POST", `${P}/variables`, { ...sealed, value: "never-shown-2" });
    await world.must("POST", `${S("web")}/variables`, sealed, editor.token);
    const batch = { set: [{ ...sealed, value: "never-shown-3" }], unset: [] };
    await world.must("POST", `${S("web")}/variables/batch`, batch, editor.token);
    await world.must("POST", `${S("web")}/variables/KEY/reveal`, {}, editor.token);
    await world.must("POST", `${S("web")}/variables`, { name: "KEY_2", value: "1" });
    const deployment = await world.must<{ version: number }>(
      "POST",
      `${S("web")}/deploy`,
      { image: "registry.example.com/web:1" },
      editor.token,
    );

    const { page, complaints } = await openConsole(stage, screen(`${S("web")}/variables`), {
      bypassCSP: true,
    });
    const dialog = page.getByRole("dialog");
    const lines = dialog.getByRole("listitem");
    await page.getByRole("button", { name: "History KEY", exact: true }).click();
    await dialog.getByText("revealed the variable KEY of the service").waitFor();
    expect(await lines.allTextContents()).toEqual([
      expect.stringMatching(/^Eve <i>E<\/i> revealed the variable KEY/),
      expect.stringMatching(/^Eve <i>E<\/i> changed variables of the service; set KEY/),
      expect.stringMatching(/^Eve <i>E<\/i> created the variable KEY of the service/),
    ]);
    expect(await accessibilityFaults(page)).toEqual([]);
    await dialog.getByLabel("Where it is set").selectOption("the project");
    await dialog.getByText("created the variable KEY of the project").waitFor();
    expect(await lines.count()).toBe(1);
    await dialog.getByLabel("Where it is set").selectOption("the environment");
    await dialog.getByRole("heading", { name: "Nothing was done with it here" }).waitFor();
    expect(await page.content()).not.toContain("never-shown");
    await page.keyboard.press("Escape");

    // Who deployed: in the list, and of the version; a name is text.
    await page.goto(world.origin + screen(`${S("web")}`));
    await page.getByRole("cell", { name: "Eve <i>E</i>", exact: true }).waitFor();
    await page.goto(world.origin + screen(`${S("web")}/deployments/${deployment.version}`));
    await page.getByText("Eve <i>E</i>").waitFor();
    expect(complaints).toEqual([]);
    await page.context().close();

    const other = await openConsole(stage, screen(`${S("web")}/variables`), { user: editor });
    await other.page.getByRole("button", { name: "Edit KEY", exact: true }).waitFor();
    expect(await other.page.getByRole("button", { name: /^History/ }).count()).toBe(0);
    await other.page.context().close();
  });
});

test("every action that the log of an account can have is said in words", () => {
  const docs = readFileSync(join(import.meta.dirname, "../../../docs/identity.md"), "utf8");
  const table = docs.slice(docs.indexOf("| subject | actions |"));
  const documented = [...table.matchAll(/`([a-z_.]+\.[a-z_]+)`/g)].map(([, action]) => action!);
  expect(documented.length).toBeGreaterThan(50);
  // Those of no account, and of one that is gone, cannot be read.
  const unread = ["user.update", "user.delete", "oauth.client.registered", "account.delete"];
  const words: Record<string, string> = texts.audit.actions;
  expect(documented.filter((action) => words[action] === undefined && !unread.includes(action))).toEqual([]);
});
