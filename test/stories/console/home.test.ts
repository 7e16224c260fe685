import { expect, test } from "vitest";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";

inChromium("the console: home and environments", (stage) => {
  test("a project, an environment and a service are made by hand, and are live in another window", async () => {
    const { world } = stage;
    const { page, complaints } = await openConsole(stage);
    await page.waitForURL(new RegExp(screen(world.A)));
    const name = `shop-${Date.now()}`;
    await page.getByRole("button", { name: "New project" }).click();
    await page.getByLabel("Name").fill("Not a name");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("alert").getByText("name").first().waitFor();
    await page.getByLabel("Name").fill(name);
    await page.keyboard.press("Enter");
    const card = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name }) });
    await card.getByRole("button", { name: "New environment" }).click();
    await page.getByLabel("Name").fill("production");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Nothing here yet" }).waitFor();
    await page.getByRole("status").getByText("live").waitFor();

    const other = await page.context().newPage();
    await other.goto(page.url());
    await page.getByRole("button", { name: "New service" }).click();
    await page.getByLabel("Name").fill("db");
    await page.getByLabel("Type").selectOption("Worker");
    await page.getByLabel("What runs").selectOption("Decide later");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "db", level: 1 }).waitFor();
    const row = other.getByRole("row").filter({ hasText: "db" });
    await row.getByText("never deployed").waitFor();
    expect(await row.textContent()).toContain("Worker");
    expect(complaints.filter((complaint) => !/422/.test(complaint))).toEqual([]);
    await page.context().close();
  });

  test("of hundreds of services only those near what is seen are drawn, and each is found by name", async () => {
    const { world } = stage;
    const { E } = await world.environment();
    const names = Array.from({ length: 160 }, (_, n) => `s${String(n).padStart(3, "0")}`);
    for (let at = 0; at < names.length; at += 20)
      await Promise.all(names.slice(at, at + 20).map((name) => serviceOf(world, E, name, { staged: true })));
    const { page, complaints } = await openConsole(stage, screen(E));
    await page.getByRole("rowheader", { name: "s000" }).waitFor();
    expect(await page.getByRole("rowheader").count()).toBeLessThan(80);
    await page.getByText("160 staged, not made yet").waitFor();
    await page.keyboard.press("End");
    await page.getByRole("rowheader", { name: "s159" }).waitFor();
    expect(await page.getByRole("rowheader").count()).toBeLessThan(80);
    await page.getByLabel("Filter by name").fill("s077");
    await page.getByRole("rowheader", { name: "s077" }).waitFor();
    expect(await page.getByRole("rowheader").count()).toBe(1);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("the quick switcher leads to a service by keyboard alone", async () => {
    const { world } = stage;
    const { name, E } = await world.environment();
    await serviceOf(world, E, "api");
    const { page, complaints } = await openConsole(stage);
    await page.getByRole("button", { name: "New project" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.keyboard.type(`${name} api`);
    await page.getByRole("option", { name: `${name} / production / api` }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "api", level: 1 }).waitFor();
    expect(page.url()).toContain(screen(E));
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("of many environments each is reached from the home screen, and by the quick switcher", async () => {
    const { world } = stage;
    const { P } = await world.environment();
    const names = Array.from({ length: 105 }, (_, n) => `e${String(n).padStart(3, "0")}`);
    for (const name of names) await world.must("POST", `${P}/environments`, { name });
    const { page, complaints } = await openConsole(stage, screen(world.A));
    const { name } = await world.must<{ name: string }>("GET", P);
    const card = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name, exact: true }) });
    await card.getByRole("link", { name: "e104" }).waitFor();
    const more = card.getByRole("button", { name: "More environments" });
    while (await more.count()) {
      const before = await card.getByRole("link").count();
      await more.click();
      await expect.poll(() => card.getByRole("link").count()).toBeGreaterThan(before);
    }
    await card.getByRole("link", { name: "e000" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Project, environment or service" }).fill(`${name} e000`);
    await page.getByRole("option", { name: "e000" }).waitFor();
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
