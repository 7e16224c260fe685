import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../kit/testing/testing.ts";
import { startLocalEngine } from "../engine/local.ts";
import type { AddonEngine } from "../terms/services.ts";
import { createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";
import type { AddonRef, AddonStatus } from "./port.ts";
import { addonAdmin } from "./testing.ts";

let berth: TestDeployer;
let chosen: AddonEngine | undefined;
let changed = (_serviceId: string) => {};
/** What the server of an addon is like, once there is one. */
const servers = new Map<string, { primary: string; since: number }>();
/** What the servers were asked, with the engine that the addon was said to have. */
const asked: string[] = [];

beforeAll(async () => {
  const env = { ADDON_POSTGRES_URL: await addonAdmin() };
  berth = await startDeployer(env, async (config, secrets, log) => {
    const engine = await startLocalEngine(config as never, secrets, log);
    const { addonServers } = engine;
    const note = (what: string, addon: AddonRef) => asked.push(`${what} ${addon.serviceId} ${addon.engine}`);
    const statusOf = (serviceId: string): AddonStatus | undefined => {
      const server = servers.get(serviceId);
      if (!server) return undefined;
      const usage = [{ at: server.since, replicas: 2, size: "nano" as const }];
      return { serviceId, type: "postgres", running: true, size: "nano", replicas: 1, usage, ...server };
    };
    return {
      ...engine,
      addonServers: {
        ...addonServers,
        ownServer: ["postgres", "redis"],
        status: async ({ serviceId }) => statusOf(serviceId),
        list: async () => [...servers.keys()].flatMap((serviceId) => statusOf(serviceId) ?? []),
        watch(listener) {
          changed = listener;
        },
        postgresEngine: async () => chosen,
        async ensure(addon, password) {
          note("ensure", addon);
          const { serviceId } = addon;
          if (!servers.has(serviceId)) servers.set(serviceId, { primary: "one", since: Date.now() });
          return addonServers.ensure(addon, password);
        },
        async remove(addon) {
          note("remove", addon);
          servers.delete(addon.serviceId);
          await addonServers.remove(addon);
        },
      },
    };
  });
});
afterAll(() => berth?.stop());

test("an addon keeps the engine that new ones had when it was made, until it is removed", async () => {
  const { catalog, environment } = await createWebService(berth.port);
  async function make(name: string) {
    const { id } = await catalog.createService({ ...environment, name, type: "postgres" });
    const path = environment.at(name);
    await eventually("it runs", async () => (await catalog.getService(path)).status === "running");
    return { id, path };
  }
  const before = await make("before");
  chosen = "cnpg";
  const during = await make("during");
  const ready = async () => (await fetch(`http://127.0.0.1:${berth.port}/readyz`)).text();
  expect(await ready()).toBe("ready\nNew PostgreSQL addons run on CloudNativePG.\n");
  for (const { path } of [before, during]) {
    await catalog.rotateCredentials(path);
    await eventually(
      "it has a new password",
      async () => (await catalog.getService(path)).credentialsRotatedAt,
    );
  }
  chosen = undefined;
  expect(await ready()).toContain("run on the usual engine");
  await catalog.rotateCredentials(during.path);
  for (const { id, path } of [before, during]) {
    await catalog.deleteService({ ...path, confirmImpact: true });
    await eventually("it is removed", async () => asked.some((one) => one.startsWith(`remove ${id}`)));
  }
  const enginesOf = (id: string) =>
    new Set(asked.filter((one) => one.includes(id)).map((one) => one.split(" ").at(-1)));
  expect(enginesOf(before.id)).toEqual(new Set(["undefined"]));
  expect(enginesOf(during.id)).toEqual(new Set(["cnpg"]));
});

test("a standby that takes over is announced, and neither the first primary nor one that serves again", async () => {
  const { catalog, environment, accountId } = await createWebService(berth.port);
  const { id } = await catalog.createService({ ...environment, name: "store", type: "postgres" });
  const isAnnounced = async () => (await berth.eventsOf(accountId)).includes("AddonFailedOver");
  async function serve(primary: string) {
    const since = Date.now();
    servers.set(id, { primary, since });
    changed(id);
    await eventually("that is recorded", async () => {
      const { rows } = await berth.pool.query(
        "select extract(epoch from usage_at) * 1000 as at, addon_primary from services where id = $1",
        [id],
      );
      return Number(rows[0].at) === since && rows[0].addon_primary === primary;
    });
  }
  await eventually(
    "it runs",
    async () => (await catalog.getService(environment.at("store"))).status === "running",
  );
  await serve("one");
  await serve("one");
  await eventually("its usage is announced", async () => {
    return (await berth.eventsOf(accountId)).includes("UsageStarted");
  });
  expect(await isAnnounced()).toBe(false);
  await serve("two");
  await eventually("it is announced", isAnnounced);
});
