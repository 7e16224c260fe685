import { expect, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";

inChromium("the console: variables", (stage) => {
  test("the merged set is shown with its sources, edited at its scope with the impact, and follows others", async () => {
    const { world } = stage;
    const { E, P, S } = await world.environment();
    await serviceOf(world, E, "web");
    await serviceOf(world, E, "worker", { type: "worker" });
    await world.must("POST", `${P}/variables`, { name: "GREETING", value: "from the project" });
    await world.must("POST", `${S("web")}/variables`, { name: "GREETING", value: "from the service" });
    await world.must("POST", `${S("web")}/variables`, { name: "LOST", aliasTarget: "NOWHERE" });
    const { page, complaints } = await openConsole(stage, screen(`${S("web")}/variables`));
    const row = (name: string) =>
      page.getByRole("row").filter({ has: page.getByRole("rowheader", { name, exact: true }) });
    await row("GREETING").getByText("from the service").waitFor();
    await row("GREETING").getByText("overrides the project").waitFor();
    await page.getByText("the variable it names does not exist").waitFor();

    await page.getByRole("button", { name: "Delete GREETING" }).click();
    await page.getByText("It is deleted from this service.").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await row("GREETING").getByText("from the project").waitFor();

    await row("GREETING").getByRole("button", { name: "Edit" }).click();
    await page
      .getByText(/This reaches 2 services: web, worker|This reaches 2 services: worker, web/)
      .waitFor();
    await page.getByLabel("Value").fill("changed\nin two lines");
    await page.getByRole("button", { name: "Save" }).click();
    await row("GREETING").getByText("in two lines").waitFor();
    const resolved = await world.must<{ data: object[] }>("GET", `${S("worker")}/resolved-variables`);
    expect(resolved.data).toMatchObject([
      { name: "GREETING", value: "changed\nin two lines", source: "project" },
    ]);

    // What somebody else changes is seen without asking.
    await world.must("POST", `${E}/variables`, { name: "FROM_ELSEWHERE", value: "1" });
    await row("FROM_ELSEWHERE").getByText("the environment").waitFor();
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("a .env is pasted, its values are hidden, one is revealed, and that is in the audit log", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "web");
    const { page, complaints } = await openConsole(stage, screen(`${S("web")}/variables`));
    await page.getByRole("button", { name: "Paste a .env" }).click();
    const text =
      '# a comment\nexport API_KEY="se\\ncret # 1"\nPLAIN=two words # and this\nEMPTY=\nnot a line\n';
    await page.getByLabel("Lines like NAME=value").fill(text);
    await page.getByText("3 variables, 0 of which have a value here now.").waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    const row = page.getByRole("row").filter({ hasText: "API_KEY" });
    await row.getByText("hidden").waitFor();
    expect(await page.content()).not.toContain("secret");
    await row.getByRole("button", { name: "Reveal" }).click();
    await row.getByText("cret # 1").waitFor();
    await row.getByRole("button", { name: "Hide" }).click();
    await row.getByText("hidden").waitFor();
    expect(await page.content()).not.toContain("cret # 1");
    await eventually("the audit log has it", async () => {
      const path = `${world.A}/audit-events?action=variable.reveal`;
      const { data } = await world.must<{ data: { target?: string }[] }>("GET", path);
      return JSON.stringify(data).includes("API_KEY");
    });
    const { data } = await world.must<{ data: { name: string; value: string }[] }>(
      "POST",
      `${S("web")}/resolved-variables/reveal`,
    );
    expect(Object.fromEntries(data.map(({ name, value }) => [name, value]))).toEqual({
      API_KEY: "se\ncret # 1",
      PLAIN: "two words",
      EMPTY: "",
    });
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("a secret that is set anew is hidden again, and is never emptied by who did not see it", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "web");
    const variable = { name: "KEY", value: "first", sensitive: true };
    await world.must("POST", `${S("web")}/variables`, variable);
    const { page } = await openConsole(stage, screen(`${S("web")}/variables`));
    const row = page.getByRole("row").filter({ hasText: "KEY" });
    await row.getByRole("button", { name: "Reveal" }).click();
    await row.getByText("first", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Edit" }).click();
    await page.getByText("The value it has is not shown.").waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    expect(await page.locator("textarea:invalid").count()).toBe(1);
    await page.getByLabel("Value").fill("second");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await row.getByText("hidden").waitFor();
    await row.getByRole("button", { name: "Reveal" }).click();
    await row.getByText("second", { exact: true }).waitFor();
    await page.context().close();
  });
});
