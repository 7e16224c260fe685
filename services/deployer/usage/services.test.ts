import { timestampMs } from "@bufbuild/protobuf/wkt";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { eventually } from "../../kit/testing/testing.ts";
import { epochMs } from "../shared/epoch-ms.ts";
import { archiveOf, visit } from "../testing/testing.ts";
import { recordHeartbeats } from "./intervals.ts";
import { app, startUsagePlatform, type UsagePlatform } from "./testing.ts";

let berth: UsagePlatform;
beforeAll(async () => {
  berth = await startUsagePlatform();
});
afterEach(() => berth?.deployer.end("SIGTERM"));
afterAll(() => berth?.stop());

test("a service is paid for from its first healthy moment until its deletion is asked for", async () => {
  await berth.deployer.run();
  const { path, id, catalog, deployments, accountId, environment } = await berth.webService();
  const [started] = await berth.untilEvents(id, "Started");
  const { projectId, environmentId } = environment;
  const scope = { accountId, projectId, environmentId, serviceId: id, serviceType: "web" };
  expect(started).toMatchObject({ ...scope, size: "nano", replicas: 1, seq: 0 });
  const { healthyAt, createdAt } = await deployments.getDeployment({ ...path, version: 1 });
  expect(Math.abs(started!.at - timestampMs(healthyAt!))).toBeLessThan(1_000);
  expect(started!.at).toBeGreaterThan(timestampMs(createdAt!));
  const before = Date.now();
  await catalog.deleteService({ ...path, confirmImpact: true });
  const [, stopped] = await berth.untilEvents(id, "Started", "Stopped");
  expect(stopped).toMatchObject({ ...scope, intervalId: started!.intervalId, seq: 1, replicas: 1 });
  expect(stopped!.at).toBeGreaterThanOrEqual(before - 5);
  expect(stopped!.at).toBeLessThanOrEqual(Date.now());
});

test("changed replicas and size hold at once, without a new version or restart, and resize the interval", async () => {
  await berth.deployer.run();
  const { path, id, catalog, url, service, deployments, deployArchive, until } = await berth.webService({
    autoApply: false,
  });
  const { text: pid } = await visit(url);
  const patched = await catalog.updateService({ ...path, config: { replicas: 3 } });
  expect(patched.pendingChanges).toBe(false);
  const [started, resized] = await berth.untilReplicas(id, 3);
  expect(resized!.intervalId).toBe(started!.intervalId);
  const answers = await Promise.all(Array.from({ length: 12 }, () => visit(url)));
  const pids = new Set(answers.map((answer) => answer.text));
  expect([pids.size, pids.has(pid)]).toEqual([3, true]);
  await berth.deployer.end("SIGKILL");
  await berth.deployer.run();
  await catalog.updateService({ ...path, config: { replicas: 1, size: "small" } });
  const down = (await berth.untilReplicas(id, 1)).at(-1)!;
  expect([down.kind, down.size, down.intervalId]).toEqual(["Resized", "small", started!.intervalId]);
  expect((await visit(url)).text).toBe(pid);
  expect((await service(path)).pendingChanges).toBe(false);
  expect((await deployments.listDeployments(path)).data).toHaveLength(1);

  await deployArchive(path, await archiveOf(app));
  await until(path, 2, "applied");
  await eventually("version 2 serves", async () => (await service(path)).liveVersion === 2);
  await catalog.updateService({ ...path, config: { replicas: 0 } });
  const stopped = await eventually("it has stopped", async () => {
    const last = berth.events.filter((one) => one.serviceId === id).at(-1);
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
  await berth.deployer.run();
  const { id, url } = await berth.webService();
  process.kill(Number((await visit(url)).text), "SIGKILL");
  const [first, stopped, again] = await berth.untilEvents(id, "Started", "Stopped", "Started");
  expect(stopped!.intervalId).toBe(first!.intervalId);
  expect(again!.intervalId).not.toBe(first!.intervalId);
  expect(stopped!.at).toBeLessThan(again!.at);
});

test("what runs has one heartbeat every five minutes, with the time at which it was seen", async () => {
  await berth.deployer.run();
  const { id, accountId } = await berth.webService();
  const [started] = await berth.untilEvents(id, "Started");
  const later = (what: string) =>
    berth.platform.pool.query(`update usage_intervals set ${what} where service_id = $1`, [id]);
  await later("heartbeat_at = heartbeat_at - interval '5 minutes'");
  await Promise.all([
    recordHeartbeats(berth.platform.pool, [id], []),
    recordHeartbeats(berth.platform.pool, [id], []),
  ]);
  const beats = () => berth.events.filter((one) => one.serviceId === id && one.kind === "Heartbeat");
  await eventually("the heartbeat arrives", async () => beats().length > 0);
  await recordHeartbeats(berth.platform.pool, [id], []);
  expect(beats()).toHaveLength(1);
  expect(beats()[0]).toMatchObject({ accountId, intervalId: started!.intervalId, seq: 1, replicas: 1 });
  expect(beats()[0]!.at).toBeGreaterThan(started!.at);
});

test("that services run is written once a minute, however many processes see it, and all heartbeats are sent", async () => {
  await berth.deployer.run();
  const [one, other] = [await berth.webService(), await berth.webService()];
  const ids = [one.id, other.id];
  await Promise.all(ids.map((id) => berth.untilEvents(id, "Started")));
  await berth.deployer.end("SIGKILL");
  const { pool } = berth.platform;
  const where = "from usage_intervals where service_id = any($1) order by id";
  const written = async () =>
    (await pool.query(`select xmin, ${epochMs("seen_at")} as seen ${where}`, [ids])).rows;
  await pool.query(
    "update usage_intervals set seen_at = seen_at - interval '1 hour', heartbeat_at = heartbeat_at - interval '1 hour' where service_id = any($1)",
    [ids],
  );
  const before = Date.now();
  await Promise.all([1, 2].map(() => recordHeartbeats(pool, ids, [])));
  const first = await written();
  for (const { seen } of first) expect(seen).toBeGreaterThan(before - 60_000);
  await recordHeartbeats(pool, ids, []);
  expect(await written()).toEqual(first);
  const events = await pool.query("select subject from outbox where subject like '%UsageHeartbeat%'");
  expect(events.rows.map((row) => row.subject.split(".").at(-1)).sort()).toEqual(
    [one.accountId, other.accountId].sort(),
  );
});
