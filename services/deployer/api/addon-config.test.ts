import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import type { Addon } from "../addons/port.ts";
import { addonAdmin, withRedis, withVolumes } from "../addons/testing.ts";
import { startLocalEngine } from "../engine/local.ts";
import { createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({ ADDON_POSTGRES_URL: await addonAdmin() });
});
afterAll(() => berth?.stop());

test("a PostgreSQL addon has standbys where its engine has them, and says whether", async () => {
  const { catalog, environment } = await createWebService(berth.port);
  const create = (replicas: number, type = "postgres") =>
    catalog.createService({ ...environment, name: "db", type, config: { replicas }, staged: true });
  expect(await refused(create(2))).toBe("422 validation_failed not_supported_here");
  expect((await refusal(create(2))).message).toContain("PostgreSQL has standbys on CloudNativePG only");
  expect(await refused(create(0))).toBe("422 validation_failed out_of_range");
  expect(await refused(create(4))).toBe("422 validation_failed out_of_range");
  expect(await refused(create(3, "redis"))).toBe("422 validation_failed out_of_range");
  expect((await refusal(create(2, "redis"))).message).toContain("a redis addon has one server");
  const { id, capabilities } = await create(1);
  expect(capabilities).toMatchObject({
    maxReplicas: 1,
    maxReplicasReason: expect.stringContaining("CloudNativePG"),
  });
  const service = { ...environment, service: "db" };
  const scale = (replicas: number) => catalog.updateService({ ...service, config: { replicas } });
  expect(await refused(scale(2))).toBe("422 validation_failed not_supported_here");

  await berth.pool.query("update services set addon_engine = 'cnpg' where id = $1", [id]);
  expect(await scale(3)).toMatchObject({
    config: { replicas: 3, size: "nano" },
    capabilities: { maxReplicas: 3 },
  });
  expect((await catalog.getService(service)).capabilities?.maxReplicasReason).toBeUndefined();
  expect(await refused(scale(4))).toBe("422 validation_failed out_of_range");
});

test("on one machine an addon has the version and the disk that are there, and says so", async () => {
  const { catalog, environment } = await createWebService(berth.port);
  const create = (config: object, type = "postgres") =>
    catalog.createService({ ...environment, name: "db", type, config });
  for (const config of [{ version: "18" }, { storageGib: 5 }, { storageMaxGib: 5 }, { pooler: true }])
    expect(await refused(create(config))).toBe("422 validation_failed not_supported_here");
  expect((await refusal(create({ version: "18" }))).message).toContain(
    "the version of the server that is there",
  );
  expect(await refused(create({ storageGib: 5 }, "web"))).toBe("422 validation_failed not_for_type");
  await create({});
  const { capabilities, server } = await catalog.getService(environment.at("db"));
  expect(capabilities).toMatchObject({
    versions: [],
    versionsReason: expect.stringContaining("On one machine"),
    storage: false,
    storageReason: expect.stringContaining("On one machine"),
    storageGrows: false,
    storageGrowsReason: expect.stringContaining("On one machine"),
    pooler: false,
    poolerReason: expect.stringContaining("need a cluster"),
  });
  expect(server?.version).toMatch(/^\d+/);
});

describe("where addons have volumes, and versions to choose from", () => {
  const GIB = 1024 ** 3;
  let cluster: TestDeployer;
  /** What the servers were asked for, by service. */
  const made = new Map<string, Addon>();
  let refusedGrowth: string | undefined;
  let isAway = false;
  let unmeasured: string | undefined;

  beforeAll(async () => {
    const env = { ADDON_POSTGRES_URL: await addonAdmin(), PLAN_STORAGE: '{"enterprise":20}' };
    cluster = await startDeployer(env, async (config, secrets, log) => {
      const engine = await startLocalEngine(config as never, secrets, log);
      const addonServers = withVolumes(engine.addonServers, made, {
        choiceOf: () => ({ versions: ["18", "17"], storageGrowsReason: unmeasured }),
        async cannotGrow() {
          if (isAway) throw new Error("no answer");
          return refusedGrowth;
        },
      });
      return { ...engine, addonServers };
    });
  });
  afterAll(() => cluster?.stop());

  async function scene() {
    const { catalog, environment } = await createWebService(cluster.port);
    const db = environment.at("db");
    const create = (config: object, more: object = {}) =>
      catalog.createService({ ...environment, name: "db", type: "postgres", config, ...more });
    const change = (config: object) => catalog.updateService({ ...db, config });
    const isReady = async (path = db) => {
      await eventually("it runs", async () => (await catalog.getService(path)).status === "running");
    };
    return { catalog, environment, db, create, change, isReady };
  }

  test("a new addon has the version and the storage that were asked for, and shows what its server is", async () => {
    const { catalog, create, db, isReady } = await scene();
    expect((await refusal(create({ version: "16" }))).message).toContain("There is 18 or 17");
    for (const version of ["", "eighteen", "18.", "1".repeat(5)])
      expect(await refused(create({ version }))).toBe("422 validation_failed invalid_version");
    for (const storageGib of [0, -1, 65_537])
      expect(await refused(create({ storageGib }))).toBe("422 validation_failed out_of_range");
    expect(await refused(create({ storageGib: 21 }))).toBe("403 quota_exceeded");
    const { id, config, capabilities } = await create({ version: "17", storageGib: 20 });
    expect(config).toMatchObject({ version: "17", storageGib: 20 });
    expect(capabilities).toMatchObject({ versions: ["18", "17"], storage: true });
    await isReady();
    expect(made.get(id)).toMatchObject({ version: "17", storageGib: 20 });
    expect((await catalog.getService(db)).server).toMatchObject({ version: "17.1", storageBytes: 20 * GIB });
  });

  withRedis("a redis addon has a standby where there are servers for one, and gives it back", async () => {
    const { catalog, environment, create, change, db, isReady } = await scene();
    expect(await refused(create({ replicas: 3 }, { type: "redis" }))).toBe(
      "422 validation_failed out_of_range",
    );
    const { id, config, capabilities } = await create({ replicas: 2 }, { type: "redis" });
    expect([config?.replicas, capabilities?.maxReplicas]).toEqual([2, 2]);
    expect(capabilities?.maxReplicasReason).toBeUndefined();
    await isReady();
    expect(made.get(id)?.replicas).toBe(2);
    await change({ replicas: 1 });
    await eventually("it has one server", async () => made.get(id)?.replicas === 1);
    const { config: own } = await catalog.createService({ ...environment, name: "other", type: "redis" });
    expect(own?.replicas).toBeUndefined();
    expect((await catalog.getService(db)).config?.replicas).toBe(1);
  });

  test("an addon's volume grows, never shrinks, and not beyond what the plan or the cluster allow", async () => {
    const { create, change, isReady } = await scene();
    const { id } = await create({});
    await isReady();
    expect((await refusal(change({ storageGib: 9 }))).message).toContain("The volume has 10 GiB");
    expect(await refused(change({ storageGib: 21 }))).toBe("403 quota_exceeded");
    refusedGrowth = "The cluster does not let the volume grow: no.";
    expect(await refusal(change({ storageGib: 15 }))).toMatchObject({ message: refusedGrowth });
    refusedGrowth = undefined;
    isAway = true;
    expect(await refused(change({ storageGib: 15 }))).toBe("503 unavailable");
    isAway = false;
    expect((await change({ storageGib: 15 })).config).toMatchObject({ storageGib: 15 });
    await eventually("it has grown", async () => made.get(id)?.storageGib === 15);
    expect(await refused(change({ storageGib: 14 }))).toBe("422 validation_failed out_of_range");
    // What it has already can be sent again, with another change.
    expect((await change({ storageGib: 15, size: "nano" })).config).toMatchObject({ storageGib: 15 });
  });

  test("up to which size a volume grows by itself is within the plan, no less than it has, and can be removed", async () => {
    const { create, change, isReady, environment } = await scene();
    for (const storageMaxGib of [-1, 65_537])
      expect(await refused(create({ storageMaxGib }))).toBe("422 validation_failed out_of_range");
    expect(await refused(create({ storageMaxGib: 21 }))).toBe("403 quota_exceeded");
    expect(await refused(create({ storageGib: 5, storageMaxGib: 4 }))).toBe(
      "422 validation_failed out_of_range",
    );
    expect(await refused(create({ storageMaxGib: 5 }, { type: "web" }))).toBe(
      "422 validation_failed not_for_type",
    );
    const { id, config, capabilities } = await create({ storageGib: 12, storageMaxGib: 15 });
    expect(config).toMatchObject({ storageGib: 12, storageMaxGib: 15 });
    expect(capabilities).toMatchObject({ storageGrows: true });
    await isReady();
    expect(await refused(change({ storageMaxGib: 11 }))).toBe("422 validation_failed out_of_range");
    expect(await refused(change({ storageMaxGib: 21 }))).toBe("403 quota_exceeded");
    expect((await refusal(change({ storageGib: 16 }))).message).toContain("storageMaxGib");
    refusedGrowth = "The cluster does not let the volume grow: no.";
    expect(await refusal(change({ storageMaxGib: 18 }))).toMatchObject({ message: refusedGrowth });
    expect((await change({ storageMaxGib: 15, size: "small" })).config).toMatchObject({ storageMaxGib: 15 });
    refusedGrowth = undefined;
    expect((await change({ storageGib: 16, storageMaxGib: 18 })).config).toMatchObject({
      storageGib: 16,
      storageMaxGib: 18,
    });
    expect((await change({ storageMaxGib: 0 })).config?.storageMaxGib).toBeUndefined();

    await eventually("it has grown", async () => made.get(id)?.storageGib === 16);
    const fork = (storageMaxGib: number) =>
      create({ storageMaxGib }, { name: "fork", from: { service: id } });
    expect(await refused(fork(15))).toBe("422 validation_failed out_of_range");
    expect((await fork(18)).config).toMatchObject({ storageGib: 16, storageMaxGib: 18 });
    await isReady(environment.at("fork"));
  });

  test("where nothing says how full volumes are, none grows by itself", async () => {
    unmeasured = "It needs a Prometheus.";
    const { create, change, isReady } = await scene();
    expect(await refusal(create({ storageMaxGib: 15 }))).toMatchObject({ message: unmeasured });
    const { capabilities } = await create({ storageGib: 12, storageMaxGib: 0 });
    expect(capabilities).toMatchObject({
      storage: true,
      storageGrows: false,
      storageGrowsReason: unmeasured,
    });
    await isReady();
    expect(await refused(change({ storageMaxGib: 15 }))).toBe("422 validation_failed not_supported_here");
    expect((await change({ storageMaxGib: 0 })).config?.storageMaxGib).toBeUndefined();
    unmeasured = undefined;
  });

  test("an addon keeps its version, and another one has its data with another version and as much storage", async () => {
    const { catalog, environment, create, change, isReady } = await scene();
    const { id } = await create({ version: "17", storageGib: 12 });
    await isReady();
    expect(await refusal(change({ version: "18" }))).toMatchObject({
      message: expect.stringContaining("from: service"),
    });
    expect((await change({ version: "17" })).config).toMatchObject({ version: "17" });
    const other = { ...environment, name: "unsaid", type: "postgres" };
    await catalog.createService(other);
    await isReady(environment.at("unsaid"));
    const say = (version: string) =>
      catalog.updateService({ ...environment.at("unsaid"), config: { version } });
    expect(await refused(say("17"))).toBe("422 validation_failed not_supported_here");
    expect((await say("18")).config).toMatchObject({ version: "18" });
    const fork = await create({ version: "18" }, { name: "newer", from: { service: id } });
    expect(fork.config).toMatchObject({ version: "18", storageGib: 12 });
    await isReady(environment.at("newer"));
    expect(made.get(fork.id)).toMatchObject({ version: "18", storageGib: 12 });
    expect((await catalog.getService(environment.at("db"))).config).toMatchObject({ version: "17" });
  });
});
