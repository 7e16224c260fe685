import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, expect, inject, test } from "vitest";
import {
  UsageHeartbeatSchema,
  UsageResizedSchema,
  UsageStartedSchema,
  UsageStoppedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { connectBus } from "../../kit/events/bus.ts";
import { startConsumer } from "../../kit/events/consumer.ts";
import { on } from "../../kit/events/handler.ts";
import { newId } from "../../kit/ids.ts";
import { createLog } from "../../kit/log.ts";
import { createPool } from "../../kit/postgres/db.ts";
import { eventually } from "../../kit/testing/testing.ts";
import type { UsageChange } from "../runtime/port.ts";
import { actAs, archiveOf, startTestPlatform, type TestPlatform, visit } from "../testing/testing.ts";
import { recordHeartbeats, usageSteps } from "./intervals.ts";
import { appendUsage } from "./journal.ts";

type Told = {
  kind: string;
  accountId: string;
  projectId: string;
  environmentId: string;
  serviceId: string;
  serviceType: string;
  size: string;
  replicas: number;
  intervalId: string;
  seq: number;
  at: number;
};

let platform: TestPlatform;
let child: ChildProcess | undefined;
const told: Told[] = [];
let stopListening: () => Promise<void>;

beforeAll(async () => {
  platform = await startTestPlatform();
  stopListening = listen();
});
afterEach(() => end("SIGTERM"));
afterAll(async () => {
  await end("SIGKILL");
  await stopListening?.();
  await platform?.stop();
});

/** Collects usage events as billing gets them. */
function listen() {
  const log = createLog("test", "silent");
  const pool = createPool(platform.database.url("variables"));
  const bus = connectBus(platform.nats.url, "test", log);
  const schemas = [UsageStartedSchema, UsageResizedSchema, UsageStoppedSchema, UsageHeartbeatSchema];
  const handlers = schemas.map((schema) =>
    on(schema, async (_tx, event) => {
      const { $typeName: _name, at, ...rest } = event as typeof event & { at: Timestamp };
      told.push({ kind: schema.name.slice("Usage".length), ...rest, at: timestampMs(at) });
    }),
  );
  const consumer = startConsumer({ bus, pool, log, name: "test-deployer", from: "deployer", handlers });
  return async () => {
    await consumer.stop();
    await bus.close();
    await pool.end();
  };
}

async function run(): Promise<void> {
  child = spawn(process.execPath, [join(import.meta.dirname, "../main.ts")], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...platform.env },
    stdio: "ignore",
  });
  await eventually("the deployer is ready", () =>
    fetch(`http://127.0.0.1:${platform.port}/readyz`).then(
      (answer) => answer.ok,
      () => false,
    ),
  );
}

async function end(signal: NodeJS.Signals): Promise<void> {
  const ending = child;
  child = undefined;
  if (!ending || ending.exitCode !== null || ending.signalCode !== null) return;
  const exited = once(ending, "exit");
  ending.kill(signal);
  await exited;
}

const app = {
  "package.json": JSON.stringify({ name: "pids", scripts: { start: "node server.js" } }),
  "server.js":
    "require('node:http').createServer((q, r) => r.end(String(process.pid))).listen(process.env.PORT)",
};

async function webService(config: object = {}) {
  const acting = actAs(platform.port, newId("acc"));
  const environment = await acting.environment();
  const made = { ...environment, name: "web", type: "web", config: { minReadySeconds: 0, ...config } };
  const { id } = await acting.catalog.createService(made);
  const path = environment.at("web");
  await acting.deployArchive(path, await archiveOf(app));
  const { url } = await acting.untilService(path, "running");
  return { ...acting, environment, id, path, url: url! };
}

/** Waits until this has been told of a service, heartbeats aside; gives it. */
const untilTold = (id: string, ...kinds: string[]) =>
  eventually(`told: ${kinds.join(", ")}`, async () => {
    const found = told.filter((one) => one.serviceId === id && one.kind !== "Heartbeat");
    return found.length >= kinds.length && found.map((one) => one.kind).join() === kinds.join() && found;
  });

/** Waits until so many replicas of a service are paid for; gives all that was told of it. */
const untilReplicas = (id: string, replicas: number) =>
  eventually(`${replicas} replicas are told`, async () => {
    const found = told.filter((one) => one.serviceId === id && one.kind !== "Heartbeat");
    return found.at(-1)?.replicas === replicas && found;
  });

test("a service is paid for from its first healthy moment until its deletion is asked for", async () => {
  await run();
  const { path, id, catalog, deployments, accountId, environment } = await webService();
  const [started] = await untilTold(id, "Started");
  const { projectId, environmentId } = environment;
  const scope = { accountId, projectId, environmentId, serviceId: id, serviceType: "web" };
  expect(started).toMatchObject({ ...scope, size: "nano", replicas: 1, seq: 0 });
  const { healthyAt, createdAt } = await deployments.getDeployment({ ...path, version: 1 });
  expect(Math.abs(started!.at - timestampMs(healthyAt!))).toBeLessThan(1_000);
  expect(started!.at).toBeGreaterThan(timestampMs(createdAt!));
  const before = Date.now();
  await catalog.deleteService({ ...path, confirmImpact: true });
  const [, stopped] = await untilTold(id, "Started", "Stopped");
  expect(stopped).toMatchObject({ ...scope, intervalId: started!.intervalId, seq: 1, replicas: 1 });
  expect(stopped!.at).toBeGreaterThanOrEqual(before - 5);
  expect(stopped!.at).toBeLessThanOrEqual(Date.now());
});

test("changed replicas and size hold at once, without a new version or restart, and resize the interval", async () => {
  await run();
  const { path, id, catalog, url, service, deployments, deployArchive, until } = await webService({
    autoApply: false,
  });
  const { text: pid } = await visit(url);
  const patched = await catalog.updateService({ ...path, config: { replicas: 3 } });
  expect(patched.pendingChanges).toBe(false);
  const [started, resized] = await untilReplicas(id, 3);
  expect(resized!.intervalId).toBe(started!.intervalId);
  const answers = await Promise.all(Array.from({ length: 12 }, () => visit(url)));
  const pids = new Set(answers.map((answer) => answer.text));
  expect([pids.size, pids.has(pid)]).toEqual([3, true]);
  await end("SIGKILL");
  await run();
  await catalog.updateService({ ...path, config: { replicas: 1, size: "small" } });
  const down = (await untilReplicas(id, 1)).at(-1)!;
  expect([down.kind, down.size, down.intervalId]).toEqual(["Resized", "small", started!.intervalId]);
  expect((await visit(url)).text).toBe(pid);
  expect((await service(path)).pendingChanges).toBe(false);
  expect((await deployments.listDeployments(path)).data).toHaveLength(1);

  await deployArchive(path, await archiveOf(app));
  await until(path, 2, "applied");
  await eventually("version 2 serves", async () => (await service(path)).liveVersion === 2);
  await catalog.updateService({ ...path, config: { replicas: 0 } });
  const stopped = await eventually("it has stopped", async () => {
    const last = told.filter((one) => one.serviceId === id).at(-1);
    return last?.kind === "Stopped" && last;
  });
  expect([stopped.intervalId, stopped.size, stopped.seq]).toEqual([
    started!.intervalId,
    "small",
    down.seq + 1,
  ]);
  expect((await service(path)).status).toBe("stopped");
});

test("an app that crashes is not paid for until it is back", async () => {
  await run();
  const { id, url } = await webService();
  process.kill(Number((await visit(url)).text), "SIGKILL");
  const [first, stopped, again] = await untilTold(id, "Started", "Stopped", "Started");
  expect(stopped!.intervalId).toBe(first!.intervalId);
  expect(again!.intervalId).not.toBe(first!.intervalId);
  expect(stopped!.at).toBeLessThan(again!.at);
});

test("an app that outlives a killed deployer is one interval, to the end", async () => {
  await run();
  const { id, path, untilService, catalog, url } = await webService();
  const [started] = await untilTold(id, "Started");
  const { text: pid } = await visit(url);
  for (let kill = 0; kill < 2; kill++) {
    await end("SIGKILL");
    await run();
    await untilService(path, "running");
    await eventually("the same process answers", async () => (await visit(url)).text === pid);
  }
  await catalog.deleteService({ ...path, confirmImpact: true });
  const [, stopped] = await untilTold(id, "Started", "Stopped");
  expect([stopped!.intervalId, stopped!.seq]).toEqual([started!.intervalId, 1]);
});

test("an app that dies with the deployer was paid for until that second, not until the next start", async () => {
  await run();
  const { id, url } = await webService();
  await untilTold(id, "Started");
  const { text: pid } = await visit(url);
  await end("SIGKILL");
  process.kill(Number(pid), "SIGKILL");
  const died = Date.now();
  await run();
  const [first, stopped, again] = await untilTold(id, "Started", "Stopped", "Started");
  expect(stopped!.at).toBeLessThanOrEqual(died);
  expect(stopped!.at).toBeGreaterThanOrEqual(Math.max(first!.at, died - 2_000));
  expect(again!.at).toBeGreaterThan(died);
});

test("a stop of the platform ends the interval, and the next start begins another", async () => {
  await run();
  const { id } = await webService();
  await untilTold(id, "Started");
  const asked = Date.now();
  await end("SIGTERM");
  const ended = Date.now();
  await run();
  const [, stopped, again] = await untilTold(id, "Started", "Stopped", "Started");
  expect(stopped!.at).toBeGreaterThanOrEqual(asked);
  expect(stopped!.at).toBeLessThanOrEqual(ended);
  expect(again!.at).toBeGreaterThan(ended);
});

test("a postgres addon is paid for while it exists, by its size", async () => {
  await run();
  const acting = actAs(platform.port, newId("acc"));
  const environment = await acting.environment();
  const path = environment.at("db");
  const { id } = await acting.catalog.createService({ ...environment, name: "db", type: "postgres" });
  await acting.untilService(path, "running");
  await acting.catalog.updateService({ ...path, config: { size: "medium" } });
  await acting.catalog.deleteService({ ...path, confirmImpact: true });
  const found = await untilTold(id, "Started", "Resized", "Stopped");
  expect(found.map((one) => [one.serviceType, one.size, one.replicas, one.seq])).toEqual([
    ["postgres", "nano", 1, 0],
    ["postgres", "medium", 1, 1],
    ["postgres", "medium", 1, 2],
  ]);
});

const withRedis = test.skipIf(!inject("redisProgram"));
withRedis("a redis addon is paid for while its server runs", async () => {
  await run();
  const acting = actAs(platform.port, newId("acc"));
  const environment = await acting.environment();
  const path = environment.at("cache");
  const { id } = await acting.catalog.createService({ ...environment, name: "cache", type: "redis" });
  await acting.untilService(path, "running");
  await untilTold(id, "Started");
  const state = await readFile(join(platform.dataDir, "redis", id, "state.json"), "utf8");
  process.kill(JSON.parse(state).pid, "SIGKILL");
  await untilTold(id, "Started", "Stopped", "Started");
  await acting.catalog.updateService({ ...path, config: { size: "small" } });
  await untilTold(id, "Started", "Stopped", "Started", "Resized");
  await acting.catalog.deleteService({ ...path, confirmImpact: true });
  const found = await untilTold(id, "Started", "Stopped", "Started", "Resized", "Stopped");
  expect(found.map((one) => [one.serviceType, one.size, one.seq])).toEqual([
    ["redis", "nano", 0],
    ["redis", "nano", 1],
    ["redis", "nano", 0],
    ["redis", "small", 1],
    ["redis", "small", 2],
  ]);
});

test("what runs is told every five minutes, once, with the time at which it was seen", async () => {
  await run();
  const { id, accountId } = await webService();
  const [started] = await untilTold(id, "Started");
  const later = (what: string) =>
    platform.pool.query(`update usage_intervals set ${what} where service_id = $1`, [id]);
  await later("heartbeat_at = heartbeat_at - interval '5 minutes'");
  await Promise.all([recordHeartbeats(platform.pool, [id], []), recordHeartbeats(platform.pool, [id], [])]);
  const beats = () => told.filter((one) => one.serviceId === id && one.kind === "Heartbeat");
  await eventually("it is told", async () => beats().length > 0);
  await recordHeartbeats(platform.pool, [id], []);
  expect(beats()).toHaveLength(1);
  expect(beats()[0]).toMatchObject({ accountId, intervalId: started!.intervalId, seq: 1, replicas: 1 });
  expect(beats()[0]!.at).toBeGreaterThan(started!.at);
});

const nano = { size: "nano" as const };
const facts = { size: "nano" };

test("changes that were taken already do nothing again", () => {
  const changes: UsageChange[] = [
    { at: 10, replicas: 0, ...nano },
    { at: 20, replicas: 1, ...nano },
  ];
  expect(usageSteps(facts, changes)).toEqual([{ do: "start", at: 20, replicas: 1, size: "nano" }]);
  const open = { replicas: 1, size: "nano", seenAt: 25 };
  expect(usageSteps({ ...facts, open, recordedUntil: 20 }, changes)).toEqual([]);
  const ended = [...changes, { at: 30, replicas: 0 }, { at: 40, replicas: 2 }];
  expect(usageSteps({ ...facts, open, recordedUntil: 20 }, ended)).toEqual([
    { do: "stop", at: 30 },
    { do: "start", at: 40, replicas: 2, size: "nano" },
  ]);
});

test("when the runtime has lost what it knew, the interval ends when it was last seen", () => {
  const open = { replicas: 1, size: "nano", seenAt: 25 };
  const anew: UsageChange[] = [
    { at: 90, replicas: 0 },
    { at: 95, replicas: 1, ...nano },
  ];
  expect(usageSteps({ ...facts, open, recordedUntil: 20 }, anew)).toEqual([
    { do: "stop", at: 25 },
    { do: "start", at: 95, replicas: 1, size: "nano" },
  ]);
});

test("taken in any portions, however often, the changes give the same seconds", () => {
  const moves = fc.array(fc.record({ wait: fc.nat(5), replicas: fc.nat(3) }), { maxLength: 30 });
  const seconds = (journal: UsageChange[], until: number) =>
    journal.reduce((sum, { at, replicas }, n) => sum + replicas * ((journal[n + 1]?.at ?? until) - at), 0);
  fc.assert(
    fc.property(moves, fc.array(fc.nat(30)), (all, portions) => {
      let journal: UsageChange[] = [];
      const prefixes: UsageChange[][] = [];
      let clock = 0;
      for (const { wait, replicas } of [{ wait: 0, replicas: 0 }, ...all]) {
        clock += wait;
        journal = appendUsage(journal, { at: clock, replicas, ...nano });
        prefixes.push(journal);
      }
      const until = journal.at(-1)!.at + 10;
      const views = [...portions].sort((a, b) => a - b).flatMap((n) => (prefixes[n] ? [prefixes[n]] : []));
      let [open, from, sum]: [number, number, number] = [0, 0, 0];
      let recordedUntil: number | undefined;
      for (const view of [...views, journal, journal]) {
        const now = open > 0 ? { replicas: open, size: "nano", seenAt: from } : undefined;
        for (const step of usageSteps({ ...facts, open: now, recordedUntil }, view)) {
          sum += open * (step.at - from);
          [open, from] = [step.do === "stop" ? 0 : step.replicas, step.at];
        }
        recordedUntil = view.at(-1)!.at;
      }
      expect(sum + open * (until - from)).toBe(seconds(journal, until));
    }),
  );
});
