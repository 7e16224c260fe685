import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { startLocalEngine } from "../engine/local.ts";
import { enqueueDriftedAddons } from "../reconcile/resync-sql.ts";
import { createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";
import type { AddonOutcome } from "./port.ts";
import { addonAdmin, withVolumes } from "./testing.ts";

const READY: AddonOutcome = { state: "ready" };
const WAITING: AddonOutcome = { state: "waiting", message: "The pooler is starting." };
const FAILED: AddonOutcome = { state: "failed", message: "The pooler does not start." };

let berth: TestDeployer;
let outcome: AddonOutcome;
let reason: string | undefined;
/** The password of each pooler that there is, by service. */
const poolers = new Map<string, string>();
/** How often one was asked for. */
let asked = 0;

beforeAll(async () => {
  const env = { ADDON_POSTGRES_URL: await addonAdmin() };
  berth = await startDeployer(env, async (config, secrets, log) => {
    const engine = await startLocalEngine(config as never, secrets, log);
    const addonServers = withVolumes(engine.addonServers, new Map(), {
      choiceOf: () => ({ versions: ["18"], poolerReason: reason }),
      poolers: {
        async ensure({ serviceId }, password) {
          asked++;
          if (outcome.state !== "failed") poolers.set(serviceId, password);
          return outcome;
        },
        address: ({ serviceId }) => ({ host: `pooler-of-${serviceId}`, port: 5432 }),
        async remove({ serviceId }) {
          poolers.delete(serviceId);
        },
      },
    });
    return { ...engine, addonServers };
  });
});
afterAll(() => berth?.stop());
beforeEach(() => {
  outcome = READY;
  reason = undefined;
});

async function scene(config: object = {}) {
  const { catalog, environment } = await createWebService(berth.port);
  const { id } = await catalog.createService({ ...environment, name: "db", type: "postgres", config });
  const path = environment.at("db");
  await eventually("it runs", async () => (await catalog.getService(path)).status === "running");
  const variables = clientAs(InternalService, berth.port, { kind: "service", id: "variables" });
  async function keys() {
    const { keys, revision } = await variables.getAddonKeys({ serviceId: id });
    const of = (name: string) => keys.find(({ key }) => key === name)!;
    const pooled = of("POOLED_URL");
    expect(pooled.sensitive).toBe(true);
    const [url, through] = [new URL(of("URL").value), new URL(pooled.value)];
    for (const part of ["username", "password", "pathname"] as const) expect(through[part]).toBe(url[part]);
    return { revision, password: url.password, host: url.hostname, pooler: through.hostname };
  }
  const isPooled = async () => (await keys()).pooler === `pooler-of-${id}`;
  const expire = () =>
    berth.pool.query("update services set addon_pooler_until = now() - interval '1 second' where id = $1", [
      id,
    ]);
  return {
    ...{ catalog, environment, id, path, keys, isPooled, expire },
    change: (pooler: boolean) => catalog.updateService({ ...path, config: { pooler } }),
    pooled: () => eventually("its keys lead through a pooler", isPooled),
    direct: () => eventually("its keys lead past the pooler", async () => !(await isPooled())),
  };
}

/** Finds what nobody reported, as deployers do now and then; of addons without a server of their own the poolers alone. */
const compare = () => enqueueDriftedAddons(berth.pool, [], []);

test("only postgres addons have poolers, where the installation can make them; turning one off is never refused", async () => {
  reason = "No poolers here.";
  const { catalog, environment, change } = await scene();
  expect(await refusal(change(true))).toMatchObject({ message: reason });
  expect(await refused(change(true))).toBe("422 validation_failed not_supported_here");
  const create = (type: string, pooler: boolean) =>
    catalog.createService({ ...environment, name: "other", type, config: { pooler } });
  expect(await refused(create("postgres", true))).toBe("422 validation_failed not_supported_here");
  expect(await refused(create("web", true))).toBe("422 validation_failed not_for_type");
  expect(await refused(create("redis", false))).toBe("422 validation_failed not_deployable");
  const { config, capabilities } = await change(false);
  expect(config?.pooler).toBeUndefined();
  expect(capabilities).toMatchObject({ pooler: false, poolerReason: reason });
  reason = undefined;
  const on = await change(true);
  expect(on).toMatchObject({ config: { pooler: true }, capabilities: { pooler: true } });
  // What it has may be sent again where no more are made.
  reason = "No poolers here.";
  expect((await change(true)).config?.pooler).toBe(true);
  expect((await change(false)).config?.pooler).toBeUndefined();
});

test("keys lead through a pooler once it serves, past it before it is removed, and it stays for those who have them", async () => {
  const { id, keys, change, pooled, direct, expire } = await scene();
  const before = await keys();
  expect(before.pooler).toBe(before.host);
  outcome = WAITING;
  await change(true);
  const once = asked;
  await eventually("it is asked for again", async () => asked > once + 1);
  expect(await keys()).toEqual(before);
  outcome = READY;
  await pooled();
  const after = await keys();
  expect(after).toMatchObject({ host: before.host, password: before.password });
  expect(after.revision).toBeGreaterThan(before.revision);

  await change(false);
  await direct();
  const withdrawn = await keys();
  expect(withdrawn.revision).toBeGreaterThan(after.revision);
  expect(poolers.has(id)).toBe(true);
  await compare();
  expect(poolers.has(id)).toBe(true);
  await expire();
  await eventually("it is removed", async () => {
    await compare();
    return !poolers.has(id);
  });
  expect(await keys()).toEqual(withdrawn);
});

test("one that is wanted again while it stays is kept", async () => {
  const { id, change, pooled, direct } = await scene({ pooler: true });
  await pooled();
  await change(false);
  await direct();
  await change(true);
  await pooled();
  expect(poolers.has(id)).toBe(true);
  const { rows } = await berth.pool.query("select addon_pooler_until as until from services where id = $1", [
    id,
  ]);
  expect(rows).toEqual([{ until: null }]);
});

test("a new password is published once the pooler accepts it too", async () => {
  const { catalog, id, path, keys, pooled, isPooled } = await scene({ pooler: true });
  await pooled();
  const before = await keys();
  outcome = WAITING;
  await catalog.rotateCredentials(path);
  await eventually("the pooler gets it", async () => poolers.get(id) !== before.password);
  expect(await keys()).toEqual(before);
  outcome = READY;
  await eventually("it is published", async () => (await keys()).password === poolers.get(id));
  expect(await isPooled()).toBe(true);
});

test("a pooler that does not start with a new password is removed, so that nothing accepts the old one", async () => {
  const { catalog, id, path, keys, pooled, isPooled } = await scene({ pooler: true });
  await pooled();
  const before = await keys();
  outcome = FAILED;
  await catalog.rotateCredentials(path);
  await eventually("it is published", async () => (await keys()).password !== before.password);
  expect(poolers.has(id)).toBe(false);
  expect(await isPooled()).toBe(false);
  outcome = READY;
  await pooled();
  expect(poolers.get(id)).toBe((await keys()).password);
});

test("a new password ends a pooler through which no keys lead", async () => {
  const { catalog, id, path, keys, change, pooled, direct } = await scene({ pooler: true });
  await pooled();
  const { password } = await keys();
  await change(false);
  await direct();
  await catalog.rotateCredentials(path);
  await eventually("it is published", async () => (await keys()).password !== password);
  expect(poolers.has(id)).toBe(false);
});

test("a password that an earlier version replaced reaches the pooler, and until then keys lead past it", async () => {
  const { id, keys, pooled } = await scene({ pooler: true });
  await pooled();
  poolers.set(id, "of before");
  await berth.pool.query("update services set addon_revision = addon_revision + 1 where id = $1", [id]);
  expect((await keys()).pooler).not.toContain("pooler-of");
  await eventually("keys lead through it again", async () => {
    await compare();
    return (await keys()).pooler === `pooler-of-${id}`;
  });
  expect(poolers.get(id)).toBe((await keys()).password);
});
