import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MetricsService } from "../../../proto/gen/berth/deployer/v1/metrics_pb.ts";
import { newId } from "../../kit/ids.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs } from "../../kit/testing/testing.ts";
import { startLocalEngine } from "../engine/local.ts";
import type { Runtime, SeriesQuery } from "../runtime/port.ts";
import {
  actAs,
  archiveOf,
  createWebService,
  startDeployer,
  type TestDeployer,
  visit,
} from "../testing/testing.ts";
import { readMetrics, toSpan } from "./read.ts";
import { sample } from "./sample.ts";
import { busyApp, sumOf } from "./testing.ts";

let berth: TestDeployer;
let runtime: Runtime;
beforeAll(async () => {
  berth = await startDeployer({}, async (config, secrets, log) => {
    const engine = await startLocalEngine(config as never, secrets, log);
    runtime = engine.runtime;
    return engine;
  });
});
afterAll(() => berth?.stop());

const deps = () => ({ pool: berth.pool, runtime, log: console });
const reader = (accountId: string, role: "reader" | "owner" = "reader") =>
  clientAs(MetricsService, berth.port, { accountId, role });

async function runningService() {
  const made = await createWebService(berth.port, { config: { minReadySeconds: 0 } });
  await made.deployArchive(made.path, await archiveOf(busyApp));
  const { url = "" } = await made.untilService(made.path, "running");
  return {
    ...made,
    url,
    read: (more: object = {}) => reader(made.accountId).getMetrics({ ...made.path, ...more }),
  };
}

test("an app under load shows its requests, their statuses and latency, and the CPU and memory that it uses", async () => {
  const { url, read } = await runningService();
  await sample(deps());
  const before = await read();
  for (let n = 0; n < 20; n++) await visit(url);
  await visit(url, "/fail");
  await visit(url, "/missing");
  await sample(deps());
  const found = await read();
  const grown = (name: string) => sumOf(found, name)! - sumOf(before, name)!;
  expect([grown("requests"), grown("status_2xx"), grown("status_4xx"), grown("status_5xx")]).toEqual([
    22, 20, 1, 1,
  ]);
  expect(sumOf(found, "latency_p50")).toBeGreaterThanOrEqual(15);
  expect(sumOf(found, "latency_p99")).toBeGreaterThanOrEqual(sumOf(found, "latency_p50")!);
  expect(sumOf(found, "cpu")).toBeGreaterThan(0.01);
  expect(sumOf(found, "memory")).toBeGreaterThan(20_000_000);
  expect(found.series.find(({ name }) => name === "replicas")?.points.at(-1)?.value).toBe(1);
  expect(found.unavailable.map(({ name }) => name)).toEqual(["network_in", "network_out"]);
  expect(found.unavailable[0]?.message).toContain("one machine");
  await sample(deps());
  expect(sumOf(await read(), "requests")).toBe(sumOf(found, "requests"));
});

test("two processes that measure at once count everything once", async () => {
  const { url, read, id } = await runningService();
  await visit(url);
  await Promise.all([sample(deps()), sample(deps()), sample(deps())]);
  await sample(deps());
  const { rows } = await berth.pool.query("select counters from metric_counters where service_id = $1", [id]);
  const counted = rows[0].counters.find(({ statuses }: { statuses?: number[] }) => statuses).statuses[0];
  expect(sumOf(await read(), "status_2xx")).toBe(counted);
});

test("a sample that fails between what was used and up to where it was counted leaves neither", async () => {
  const { url, read } = await runningService();
  await sample(deps());
  await visit(url);
  const before = await read();
  const refuse =
    "create or replace function refuse() returns trigger language plpgsql as $$ begin raise 'full'; end $$";
  await berth.pool.query(refuse);
  await berth.pool.query(
    "create trigger refused before update on metric_counters for each row execute function refuse()",
  );
  try {
    await expect(sample(deps())).rejects.toThrow("full");
  } finally {
    await berth.pool.query("drop trigger refused on metric_counters");
  }
  expect(sumOf(await read(), "requests")).toBe(sumOf(before, "requests"));
  await sample(deps());
  expect(sumOf(await read(), "requests")).toBe(sumOf(before, "requests")! + 1);
});

test("a service has a row for each minute of a day at most: yesterday's is replaced, and not shown before", async () => {
  const { read, id, catalog, path } = await runningService();
  const where = "where service_id = $1";
  await sample(deps());
  await berth.pool.query(
    `update service_metrics set minute = minute - interval '1 day', restarts = 7 ${where}`,
    [id],
  );
  expect(sumOf(await read({ from: timestampFromMs(0) }), "restarts")).toBe(0);
  await sample(deps());
  const { rows } = await berth.pool.query(`select restarts from service_metrics ${where} and restarts < 7`, [
    id,
  ]);
  expect(rows).toHaveLength(1);
  const { rows: all } = await berth.pool.query(
    `select count(distinct slot) = count(*) as once from service_metrics ${where}`,
    [id],
  );
  expect(all[0].once).toBe(true);
  await catalog.deleteService({ ...path, confirmImpact: true });
  await sample(deps());
  await expect
    .poll(async () => (await berth.pool.query(`select from service_metrics ${where}`, [id])).rowCount, {
      timeout: 20_000,
    })
    .toBe(0);
});

test("a span that ends before it begins and a small step are refused; another account sees nothing", async () => {
  const { read, path } = await runningService();
  const at = (ms: number) => timestampFromMs(Date.now() + ms);
  expect(await refused(read({ from: at(-1_000), to: at(-2_000) }))).toBe(
    "422 validation_failed out_of_range",
  );
  expect(await refused(read({ to: at(-25 * 3_600_000) }))).toBe("422 validation_failed out_of_range");
  expect(await refused(read({ step: 59 }))).toBe("422 validation_failed out_of_range");
  expect(await refused(read({ service: "none" }))).toBe("404 not_found");
  const other = newId("acc");
  await actAs(berth.port, other).environment();
  expect(await refused(reader(other).getMetrics({ ...path, accountId: other }))).toBe("404 not_found");
});

test("a worker has no series of requests, and none of them is called unavailable", async () => {
  const { catalog, environment, accountId } = await createWebService(berth.port);
  await catalog.createService({ ...environment, name: "jobs", type: "worker" });
  const found = await reader(accountId).getMetrics(environment.at("jobs"));
  expect(found.series.map(({ name }) => name)).toEqual(["cpu", "memory", "replicas", "restarts"]);
  expect(found.unavailable.map(({ name }) => name)).toEqual(["network_in", "network_out"]);
});

test("what somebody else keeps fills what is not measured here, and its silence is said and no error", async () => {
  const { id, environment } = await runningService();
  await sample(deps());
  const points = [{ at: Date.now(), value: 7 }];
  const service = { id, environmentId: environment.environmentId, type: "web" as const };
  const unmeasured = { network: "Nobody knows." };
  const asked: SeriesQuery[] = [];
  const read = (readSeries: Runtime["readSeries"]) => {
    const log = { ...console, warn() {} };
    return readMetrics(
      { db: berth.pool, source: { unmeasured, readSeries }, log },
      service,
      toSpan({}, Date.now()),
    );
  };
  const found = await read(async (query) => {
    asked.push(query);
    return { network_in: points, cpu: points };
  });
  const named = (name: string) => found.series.find((one) => one.name === name)?.points;
  expect(named("network_in")).toEqual(points);
  expect(named("cpu")).not.toEqual(points);
  expect(found.unavailable).toEqual([{ name: "network_out", message: "Nobody knows." }]);
  expect(asked).toMatchObject([{ serviceId: id, names: { service: "web" }, type: "web", stepMs: 60_000 }]);
  const silent = await read(() => Promise.reject(new Error("down")));
  expect(silent.unavailable.map(({ message }) => message)).toEqual(
    Array(2).fill(expect.stringContaining("did not answer")),
  );
});
