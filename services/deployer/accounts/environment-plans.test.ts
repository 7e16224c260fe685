import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { createEntitlements } from "../../kit/plans.ts";
import { actAs, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { environmentPlans } from "./environment-plans.ts";
import { setTier } from "./sql.ts";

// What plans allow in the environments of accounts, as a cluster receives it.

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

type Settings = Parameters<typeof createEntitlements>[0];
const settings: Settings = {
  defaultTier: "enterprise",
  planQuotas: "on",
  planOpenPorts: { team: [587] },
  planSizes: {},
  planStorage: {},
  planBackupDays: {},
};
const UNLIMITED = { openPorts: [] };
/** A web service and a worker, a postgres and a redis, all of size nano. */
const FREE = { most: { pods: 4, cpu: 1_000, memory: 1_024, storage: 18_432 }, volumes: 2, openPorts: [] };

/** An account, one of its environments, and what its plan allows there. */
async function someone(more: Partial<Settings> = {}) {
  const { accountId, catalog, environment } = actAs(berth.port, newId("acc"));
  const at = await environment();
  const plansOf = environmentPlans(berth.pool, createEntitlements({ ...settings, ...more }));
  let revision = 0n;
  return {
    at,
    catalog,
    tier: (tier: "free" | "pro" | "team") => setTier(berth.pool, accountId, tier, ++revision),
    allowed: async () => (await plansOf([at.environmentId, "env_nobody_knows"])).get(at.environmentId),
  };
}

test("an environment may hold what the account's plan allows of everything together", async () => {
  const { tier, allowed } = await someone();
  expect(await allowed()).toEqual(UNLIMITED);
  await tier("free");
  expect(await allowed()).toEqual(FREE);
  await tier("pro");
  expect(await allowed()).toEqual({ volumes: 20, openPorts: [] });
  await tier("team");
  expect(await allowed()).toEqual({ volumes: 100, openPorts: [587] });
});

test("the largest size that the operator sets for a plan counts in place of the quota's", async () => {
  const { tier, allowed } = await someone({ planSizes: { free: "small", pro: "medium" } });
  await tier("free");
  expect((await allowed())?.most).toMatchObject({ cpu: 2_000, memory: 2_048 });
  await tier("pro");
  expect(await allowed()).toEqual({ volumes: 20, openPorts: [] });
});

test("an account that billing has said nothing about has the default plan, and without quotas nothing is limited", async () => {
  expect(await (await someone({ defaultTier: "free" })).allowed()).toEqual(FREE);
  const { tier, allowed } = await someone({ planQuotas: "off" });
  await tier("free");
  expect(await allowed()).toEqual(UNLIMITED);
});

test.each([
  ["larger", [{ name: "web", type: "web", config: { size: "large" } }]],
  ["more replicas", [{ name: "web", type: "web", config: { replicas: 2 } }]],
  ["more services", ["one", "two"].map((name) => ({ name, type: "worker", config: {} }))],
])(
  "an account that kept %s of a larger plan is not limited until it has given that up",
  async (_what, services) => {
    const { at, catalog, tier, allowed } = await someone();
    await tier("pro");
    for (const service of services) await catalog.createService({ ...at, ...service, staged: true });
    await tier("free");
    expect(await allowed()).toEqual({ volumes: 2, openPorts: [] });
    const [first, second] = services.map(({ name }) => ({ ...at, service: name }));
    if (second) await catalog.deleteService(second);
    else await catalog.updateService({ ...first!, config: { size: "nano", replicas: 1 } });
    expect(await allowed()).toEqual(FREE);
  },
);

test("what runs by a rollback to a larger size counts, whatever the service has", async () => {
  const { at, catalog, tier, allowed } = await someone();
  await tier("free");
  const { id } = await catalog.createService({ ...at, name: "web", type: "web" });
  await berth.pool.query(
    `insert into deployments (id, service_id, version, status, config, source)
     values ('dep_' || $1, $1, 1, 'applied', '{"size": "large", "replicas": 1}', '{}')`,
    [id],
  );
  expect(await allowed()).toEqual(FREE);
  await berth.pool.query("update services set live_version = 1 where id = $1", [id]);
  expect(await allowed()).toEqual({ volumes: 2, openPorts: [] });
});

test("volumes that an account kept of a larger plan may be made again", async () => {
  const { at, catalog, tier, allowed } = await someone();
  await tier("pro");
  for (const name of ["one", "two", "three"])
    await catalog.createService({ ...at, name, type: "redis", staged: true });
  await tier("free");
  expect(await allowed()).toEqual(UNLIMITED);
});
