import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { MetricsService } from "../../../proto/gen/berth/deployer/v1/metrics_pb.ts";
import { newId } from "../../kit/ids.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { addonAdmin, command, type PublishedKeys, withRedis } from "../addons/testing.ts";
import { type Engine, startLocalEngine } from "../engine/local.ts";
import { actAs, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { sample } from "./sample.ts";
import { sumOf } from "./testing.ts";

type Metrics = Parameters<typeof sumOf>[0];

let berth: TestDeployer;
let engine: Engine;
beforeAll(async () => {
  const env = { ADDON_POSTGRES_URL: await addonAdmin() };
  berth = await startDeployer(env, async (config, secrets, log) => {
    engine = await startLocalEngine(config as never, secrets, log);
    return engine;
  });
});
afterAll(() => berth?.stop());

async function running(type: string) {
  const acting = actAs(berth.port, newId("acc"));
  const environment = await acting.environment();
  const { id } = await acting.catalog.createService({ ...environment, name: "store", type });
  const path = environment.at("store");
  await acting.untilService(path, "running");
  const internal = clientAs(InternalService, berth.port, { kind: "service", id: "variables" });
  const { keys } = await internal.getAddonKeys({ serviceId: id });
  const published = Object.fromEntries(keys.map(({ key, value }) => [key, value]));
  const metrics = clientAs(MetricsService, berth.port, { accountId: acting.accountId, role: "reader" });
  return {
    keys: published as Pick<PublishedKeys, "PORT" | "PASSWORD" | "URL">,
    /** What is shown once everything was measured again. */
    async measured() {
      await sample({ pool: berth.pool, ...engine, log: console });
      return metrics.getMetrics(path);
    },
  };
}

const newest = ({ series }: Metrics, name: string) =>
  series.find((one) => one.name === name)?.points.at(-1)?.value;
const namesOf = (list: { name: string }[]) => list.map(({ name }) => name);

test("a postgres addon of one machine shows what its database stores and who is connected, and why not more", async () => {
  const { keys, measured } = await running("postgres");
  const app = new pg.Client({ connectionString: keys.URL });
  await app.connect();
  try {
    const before = newest(await measured(), "storage_used")!;
    await app.query(
      "create table kept as select repeat(md5(n::text), 20) as t from generate_series(1, 5000) n",
    );
    const found = await measured();
    expect(newest(found, "storage_used")! - before).toBeGreaterThan(2_000_000);
    expect(newest(found, "connections")).toBe(1);
    expect(namesOf(found.series)).toEqual(["storage_used", "connections"]);
    const why = new Map(found.unavailable.map(({ name, message }) => [name, message]));
    const missing = ["cpu", "memory", "replicas", "restarts", "storage_size", "network_in", "network_out"];
    expect([...why.keys()]).toEqual(missing);
    expect(why.get("cpu")).toContain("share a server");
    expect(why.get("storage_size")).toContain("no volumes");
  } finally {
    await app.end();
  }
});

withRedis(
  "a redis addon of one machine shows its server's CPU, memory, data, clients and restarts",
  async () => {
    const { keys, measured } = await running("redis");
    const before = await measured();
    await command(keys, ["SET", "kept", "x".repeat(100_000)]);
    const found = await measured();
    expect(newest(found, "storage_used")! - newest(before, "storage_used")!).toBeGreaterThan(100_000);
    expect(newest(found, "replicas")).toBe(1);
    expect(sumOf(found, "restarts")).toBe(0);
    expect(newest(found, "memory")).toBeGreaterThan(1_000_000);
    expect(newest(found, "cpu")).toBeGreaterThanOrEqual(0);
    expect(namesOf(found.unavailable)).toEqual(["storage_size", "network_in", "network_out"]);
    await command(keys, ["SHUTDOWN", "NOSAVE"]).catch(() => {});
    await eventually("its restart is counted", async () => sumOf(await measured(), "restarts") === 1);
    await eventually("the next server runs", async () => newest(await measured(), "replicas") === 1);
    // Whoever asked it whether it runs leaves a moment later.
    await eventually("nobody is connected", async () => newest(await measured(), "connections") === 0);
  },
);
