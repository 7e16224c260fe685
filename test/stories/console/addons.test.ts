import { expect, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { accessibilityFaults } from "../../support/browser.ts";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";

const GIB = 1024 ** 3;

inChromium("the console: version and storage of addons", (stage) => {
  test("on one machine an addon shows its version, and says why it has no volume; neither can be chosen", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "db", { type: "postgres" });
    const { server } = await eventually("its server is known", async () => {
      const addon = await world.must<{ server?: { version: string } }>("GET", S("db"));
      return addon.server && { server: addon.server };
    });
    const { page, complaints } = await openConsole(stage, screen(S("db")), { bypassCSP: true });
    await page.getByRole("definition").getByText(server.version, { exact: true }).waitFor();
    expect(await page.getByText("Volume", { exact: true }).count()).toBe(0);
    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByText("On one machine, addons have no volumes").waitFor();
    expect(await page.getByLabel(/Storage/).count()).toBe(0);
    await page.goto(world.origin + screen(E));
    await page.getByRole("button", { name: "New service" }).click();
    const read = page.waitForResponse(/\/services\?limit/);
    await page.getByLabel("Type").selectOption("PostgreSQL");
    await read;
    await page.getByLabel("Name").fill("db-2");
    expect(await page.getByLabel(/Version|Storage/).count()).toBe(0);
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "db-2" }).waitFor();
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("an addon shows what its server does, to editors, with texts of statements as text", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "db", { type: "postgres" });
    await eventually("it runs", async () => {
      return (await world.must<{ status: string }>("GET", S("db"))).status === "running";
    });
    const own = await world.must<{ postgres: object }>("GET", `${S("db")}/statistics`);
    const text = `select '<img src=x onerror=alert(1)>' /* ${"long ".repeat(180)} */`;
    const statement = { text, calls: 7, totalSeconds: 90, meanMilliseconds: 12.34, rows: 1 };
    const seen = {
      running: [{ pid: 4711, seconds: 65, state: "active", wait: "Lock: relation", blockedBy: [4712], text }],
      tables: [{ name: "orders", sizeBytes: 2048, rows: 5, seqScans: 3, indexScans: 2, deadRows: 0 }],
      statements: [statement],
    };
    let reads = 0;
    const { page, complaints } = await openConsole(stage, screen(E), {
      bypassCSP: true,
      viewport: { width: 320, height: 800 },
    });
    await page.route(/\/statistics$/, (route) => {
      reads++;
      return reads === 1
        ? route.continue()
        : route.fulfill({ json: { ...own, postgres: { ...own.postgres, cacheHitRatio: 0.5, ...seen } } });
    });
    await page.goto(world.origin + screen(S("db")));
    await page.getByRole("heading", { name: "Statistics" }).waitFor();
    await page.getByText("No statement runs.").waitFor();
    await page.getByRole("definition").getByText("0 of 20", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Read again" }).click();
    await page.getByRole("definition").getByText("50.0 %").waitFor();
    const row = (name: string) => page.getByRole("row").filter({ hasText: name });
    for (const shown of ["1 min 5 s", "runs", "Lock: relation", "waits for 4712"])
      expect(await row("4711").innerText()).toContain(shown);
    expect(await row("4711").locator("code").textContent()).toBe(text);
    expect(await row("orders").innerText()).toContain("2 KiB");
    expect(await row("12.3 ms").innerText()).toContain("1 min 30 s");
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
    expect(complaints).toEqual([]);
    await page.context().close();

    const reader = await openConsole(stage, screen(S("db")), { user: await world.member("reader") });
    await reader.page.getByText("An addon has no deployments.").waitFor();
    expect(await reader.page.getByRole("heading", { name: "Statistics" }).count()).toBe(0);
    expect(reader.complaints).toEqual([]);
    await reader.page.context().close();
  });

  test("an addon takes the place of another one of its type, and its screen is that of the name", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "db", { type: "postgres" });
    const { id } = await serviceOf(world, E, "next", { type: "postgres" });
    for (const name of ["db", "next"])
      await eventually("it runs", async () => {
        return (await world.must<{ status: string }>("GET", S(name))).status === "running";
      });
    const { page, complaints } = await openConsole(stage, `${screen(S("next"))}/settings`, {
      bypassCSP: true,
      viewport: { width: 320, height: 800 },
    });
    await page.getByLabel("Addon").selectOption("db");
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
    await page.getByRole("button", { name: "Take its place" }).click();
    await page.waitForURL(`**${screen(S("db"))}`);
    await page.getByRole("heading", { name: "db" }).waitFor();
    expect(await world.must("GET", S("db"))).toMatchObject({ id });
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("where version and storage can be chosen, a new addon and a fork have them, and a volume grows", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    const { id } = await serviceOf(world, E, "db", { type: "postgres" });
    const { page, complaints } = await openConsole(stage, screen(E), {
      bypassCSP: true,
      viewport: { width: 320, height: 800 },
    });
    // As a cluster answers, whose volumes take a while to grow.
    const addon = {
      ...(await world.must<object>("GET", S("db"))),
      config: { size: "nano" },
      capabilities: { backups: true, versions: ["18", "17"], storage: true },
      server: { version: "17.9", storageBytes: 20 * GIB },
    };
    const backup = { id: "bkp_1", serviceId: id, status: "succeeded", trigger: "manual" };
    const now = new Date().toISOString();
    const backups = [{ ...backup, startedAt: now }];
    const kept = {
      ...{
        ...backup,
        type: "postgres",
        serviceName: "lost",
        environmentName: "staging",
        projectName: "shop",
      },
      ...{ startedAt: now, keptUntil: now, sizeBytes: 5 },
    };
    const sent: object[] = [];
    const refusal = {
      code: "quota_exceeded",
      message: "The plan allows 50 GiB.",
      requestId: "r",
      details: [],
    };
    await page.route(`**${E}/services**`, async (route) => {
      const request = route.request();
      if (request.method() === "GET")
        return request.url().includes("?")
          ? route.fulfill({ json: { data: [addon], page: { hasMore: false } } })
          : route.fallback();
      sent.push(request.postDataJSON());
      return route.fulfill({ json: addon });
    });
    await page.route(`**${S("db")}`, async (route) => {
      if (route.request().method() !== "PATCH") return route.fulfill({ json: addon });
      const change = route.request().postDataJSON();
      sent.push(change);
      if (change.config.storageGib > 50) return route.fulfill({ status: 403, json: { error: refusal } });
      if (change.config.storageGib) addon.server.storageBytes = change.config.storageGib * GIB;
      // The answer to a change does not say what the server is.
      const { server: _, ...rest } = addon;
      return route.fulfill({ json: rest });
    });
    await page.route(/\/backups\?/, (route) => route.fulfill({ json: { data: backups, page: {} } }));
    const check = async () => {
      expect(await accessibilityFaults(page)).toEqual([]);
      expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
    };
    const dialog = page.getByRole("dialog");
    const create = dialog.getByRole("button", { name: "Create" });

    await page.getByRole("button", { name: "New service" }).click();
    await dialog.getByLabel("Name").fill("db");
    expect(await dialog.getByLabel("Version").count()).toBe(0);
    // None of this type says what there is to choose.
    await dialog.getByLabel("Type").selectOption("Redis");
    expect(await dialog.getByLabel(/Version|Storage/).count()).toBe(0);
    await dialog.getByLabel("Type").selectOption("PostgreSQL");
    await dialog.getByLabel("Version").selectOption("17");
    await dialog.getByLabel("Storage in GiB").fill("0");
    await create.click();
    expect(sent).toEqual([]);
    await dialog.getByLabel("Storage in GiB").fill("20");
    await check();
    await create.click();
    await page.getByRole("definition").getByText("17.9", { exact: true }).waitFor();
    await page.getByRole("definition").getByText("20 GiB", { exact: true }).waitFor();
    await check();
    expect(sent.splice(0)).toEqual([
      { name: "db", type: "postgres", config: { version: "17", storageGib: 20 } },
    ]);

    await page.getByRole("link", { name: "Settings" }).click();
    const storage = page.getByLabel("Storage in GiB");
    expect(await storage.inputValue()).toBe("20");
    await check();
    const save = page.getByRole("button", { name: "Save" });
    // Volumes never shrink.
    await storage.fill("19");
    await save.click();
    expect(sent).toEqual([]);
    await storage.fill("60");
    await save.click();
    await page.getByRole("alert").getByText(refusal.message).waitFor();
    await storage.fill("40");
    await save.click();
    await page.getByText("Until the volume has grown").waitFor();
    expect(sent.splice(0)).toEqual([60, 40].map((storageGib) => ({ config: { storageGib } })));
    await storage.fill("39");
    await save.click();
    expect(sent).toEqual([]);
    expect(await page.getByLabel("Grows by itself").count()).toBe(0);
    Object.assign(addon.capabilities, { storageGrows: true });
    await page.reload();
    await page.getByLabel("Grows by itself").fill("50");
    await check();
    await save.click();
    await page.getByText("Until the volume has grown").waitFor();
    await page.getByLabel("Grows by itself").fill("");
    await save.click();
    await eventually("both are sent", async () => sent.length === 2);
    expect(sent.splice(0)).toEqual(
      [50, 0].map((storageMaxGib) => ({ config: { storageGib: 40, storageMaxGib } })),
    );

    // It says neither that there may be a pooler nor why not.
    expect(await page.getByRole("heading", { name: "Pooler" }).count()).toBe(0);
    const poolerReason = "Poolers need a cluster.";
    Object.assign(addon.capabilities, { pooler: false, poolerReason });
    await page.reload();
    await page.getByText(poolerReason).waitFor();
    Object.assign(addon.capabilities, { pooler: true });
    for (const [turn, pooler] of [
      ["on", true],
      ["off", false],
    ] as const) {
      await page.reload();
      const button = page.getByRole("button", { name: `Turn the pooler ${turn}` });
      await button.waitFor();
      await check();
      await button.click();
      await page.getByText("POOLED_URL follows").waitFor();
      expect(sent.splice(0)).toEqual([{ config: { pooler } }]);
      Object.assign(addon.config, { pooler });
    }

    // Nor how many servers it may have.
    const servers = page.getByLabel("Servers");
    expect(await page.getByRole("heading", { name: "Servers" }).count()).toBe(0);
    Object.assign(addon.capabilities, { maxReplicas: 1, maxReplicasReason: "Standbys need a cluster." });
    await page.reload();
    await page.getByText("Standbys need a cluster.").waitFor();
    expect(await servers.count()).toBe(0);
    Object.assign(addon.capabilities, { maxReplicas: 2, storage: false });
    await page.reload();
    await servers.fill("3");
    await save.click();
    await servers.fill("2");
    await check();
    await save.click();
    await page.getByText("A standby takes over once").waitFor();
    expect(sent.splice(0)).toEqual([{ config: { replicas: 2 } }]);
    Object.assign(addon.capabilities, { storage: true });
    await page.reload();

    await page.getByRole("link", { name: "Backups" }).click();
    await page.getByRole("button", { name: "Fork bkp_1" }).click();
    await dialog.getByText("as much as the other one was given").waitFor();
    expect(await dialog.getByLabel("Version").locator("option").allTextContents()).toEqual([
      "The usual one here",
      ...["18", "17"],
    ]);
    await check();
    await dialog.getByLabel("Version").selectOption("18");
    await create.click();
    await dialog.waitFor({ state: "detached" });
    expect(sent.splice(0)).toEqual([
      {
        ...{ name: "db-2", type: "postgres", from: { service: id, backup: "bkp_1" } },
        config: { version: "18" },
      },
    ]);

    // A backup of a deleted addon says nothing of that: another addon of the environment does.
    await page.route(`**${world.A}/backups?*`, (route) =>
      route.fulfill({ json: { data: [kept], page: {} } }),
    );
    await page.goto(world.origin + screen(`${world.A}/backups`));
    await page.getByRole("button", { name: "Bring back" }).click();
    const [, environmentId] = /environments\/(env_\w+)/.exec(E) ?? [];
    await dialog.getByLabel("Environment").selectOption(environmentId!);
    await dialog.getByLabel("Storage in GiB").fill("5");
    await create.click();
    await dialog.waitFor({ state: "detached" });
    expect(sent).toEqual([
      { name: "lost", type: "postgres", from: { backup: "bkp_1" }, config: { storageGib: 5 } },
    ]);
    // Of the refused size.
    expect(complaints).toEqual([expect.stringContaining("403")]);
    await page.context().close();
  });
});
