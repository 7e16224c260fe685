import { timestampMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SuspensionChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import type { RunEnded } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { createLog } from "../../kit/log.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { archiveOf, freePlan, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { collectEvents } from "../testing/testing-process.ts";
import { startScheduled } from "./start-scheduled.ts";
import { cronService } from "./testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

test("a cron service is healthy without replicas, and a time of its schedule runs its start command once", async () => {
  const { path, catalog, deployments, untilRuns, due, logs, id } = await cronService(berth, {
    command: "echo $GREETING from $(cat index.html)",
  });
  const service = await catalog.getService(path);
  expect(service).toMatchObject({ status: "running", liveVersion: 1, pendingChanges: false });
  expect(service.url).toBeUndefined();
  expect(timestampMs(service.nextRunAt!)).toBeGreaterThan(Date.now());
  expect(service.lastRun).toBeUndefined();
  expect((await deployments.getDeployment({ ...path, version: 1 })).healthyAt).toBeDefined();

  // Of the time at which the run starts, without a roll-out.
  berth.variables.set(id, [{ name: "GREETING", value: "hello" }]);
  await due();
  const [run] = await untilRuns(1, "succeeded");
  expect(run).toMatchObject({ trigger: "schedule", version: 1, exitCode: 0 });
  expect(run!.requestedBy).toBeUndefined();
  expect(timestampMs(run!.scheduledFor!) % 60_000).toBe(0);
  expect(await logs(run!.id)).toBe("hello from one\n");
  const after = await catalog.getService(path);
  expect(after.lastRun).toMatchObject({ id: run!.id, status: "succeeded", exitCode: 0 });
  expect(timestampMs(after.nextRunAt!)).toBeGreaterThan(Date.now());
});

test("what runs is billed as long as it runs, and nothing else is", async () => {
  const { untilRuns, due, waiting, go, id } = await cronService(berth, {}, "waiting");
  expect(waiting).toBeTruthy();
  const open = async () =>
    (await berth.pool.query("select replicas, type from usage_intervals where service_id = $1", [id])).rows;
  expect(await open()).toEqual([]);
  await due();
  await untilRuns(1, "running");
  expect(await open()).toEqual([{ replicas: 1, type: "cron" }]);
  go();
  await untilRuns(1, "succeeded");
  expect(await open()).toEqual([]);
});

test("by default a time is skipped while a run has not ended", async () => {
  const { untilRuns, due, go, list } = await cronService(berth, {}, "waiting");
  await due();
  await untilRuns(1, "running");
  await due();
  await due();
  expect(await list()).toHaveLength(1);
  go();
  await untilRuns(1, "succeeded");
});

test("with overlap: replace the run before is ended before the next begins; with allow both run", async () => {
  const { untilRuns, due, list, catalog, path, written } = await cronService(
    berth,
    { overlap: "replace" },
    "trapping",
  );
  await due();
  await untilRuns(1, "running");
  await eventually("it has begun", async () => written() === "begun\n");
  await due();
  await eventually("the first was replaced, and the next runs", async () => {
    const [next, first] = await list();
    return first?.status === "canceled" && next?.status === "running";
  });
  await eventually("the next has begun", async () => written() === "begun\nended\nbegun\n");
  await catalog.updateService({ ...path, config: { overlap: "allow" } });
  await due();
  await eventually("both run", async () => {
    const all = await list();
    return all.length === 3 && all.filter(({ status }) => status === "running").length === 2;
  });
});

test("run now runs the start command, or another one; a run takes no longer than the service's limit", async () => {
  const { runs, path, untilEnded, logs } = await cronService(berth, {
    command: "echo by schedule; sleep 600",
    runTimeoutSeconds: 1,
  });
  const now = await runs.createRun(path);
  expect(now).toMatchObject({ trigger: "manual", timeoutSeconds: 1 });
  expect(now.command).toBeUndefined();
  expect(await untilEnded(now.id)).toMatchObject({ status: "timed_out" });
  expect(await logs(now.id)).toBe("by schedule\n");
  const other = await runs.createRun({ ...path, command: "echo other", timeoutSeconds: 60 });
  expect(await untilEnded(other.id)).toMatchObject({ status: "succeeded" });
});

test("without config.command it runs what the build found", async () => {
  const { runs, path, catalog, deployArchive, until, untilEnded, logs } = await cronService(berth, {});
  await catalog.updateService({ ...path, config: { command: "" } });
  const files = {
    "package.json": JSON.stringify({ scripts: { start: "node job.js" } }),
    "job.js": "console.log('found')",
  };
  await deployArchive(path, await archiveOf(files));
  await until(path, 2, "applied");
  const { id } = await runs.createRun(path);
  expect(await untilEnded(id)).toMatchObject({ status: "succeeded" });
  expect(await logs(id)).toContain("found");
});

test("another schedule or time zone counts at once, and none at all pauses it", async () => {
  const { catalog, path } = await cronService(berth, { schedule: "0 3 * * *" });
  const next = async () => (await catalog.getService(path)).nextRunAt;
  const hour = (time: Awaited<ReturnType<typeof next>>) => new Date(timestampMs(time!)).getUTCHours();
  expect(hour(await next())).toBe(3);
  const changed = await catalog.updateService({ ...path, config: { timeZone: "Asia/Tokyo" } });
  expect(hour(changed.nextRunAt)).toBe(18);
  expect(changed.pendingChanges).toBe(false);
  await catalog.updateService({ ...path, config: { schedule: "" } });
  expect(await next()).toBeUndefined();
  await catalog.updateService({ ...path, config: { schedule: "@hourly" } });
  expect(await next()).toBeDefined();
});

test("each end of a run is announced once, and says whether the scheduled one before it failed", async () => {
  const { untilRuns, due, list, id, runs, path, untilEnded, catalog, go } = await cronService(
    berth,
    {},
    "failing",
  );
  const events = collectEvents(berth);
  try {
    await due();
    await untilRuns(1, "failed");
    await due();
    await untilRuns(2, "failed");
    go();
    await due();
    await eventually("the third succeeded", async () => (await list())[0]!.status === "succeeded");
    await untilEnded((await runs.createRun({ ...path, command: "exit 4" })).id);
    await catalog.updateService({ ...path, config: { overlap: "allow" } });
    const canceled = await runs.createRun({ ...path, command: "sleep 600" });
    await runs.cancelRun({ ...path, runId: canceled.id });
    await due();
    await eventually("the fourth succeeded", async () => (await list())[0]!.status === "succeeded");
    const ended = await eventually("all ends are announced", async () => {
      const own = events.received.filter(({ kind, serviceId }) => kind === "RunEnded" && serviceId === id);
      return own.length >= 5 && (own as unknown as RunEnded[]);
    });
    expect(ended.map((one) => [one.trigger, one.status, one.exitCode, one.previousFailed])).toEqual([
      ["schedule", "failed", 3, false],
      ["schedule", "failed", 3, true],
      ["schedule", "succeeded", 0, true],
      ["manual", "failed", 4, false],
      ["schedule", "succeeded", 0, false],
    ]);
  } finally {
    await events.stop();
  }
});

test("a schedule that is none, and what a type does not have, is refused", async () => {
  const { catalog, path, environment } = await cronService(berth, {});
  const change = (config: object) => refused(catalog.updateService({ ...path, config }));
  for (const config of [
    { schedule: "* * * *" },
    { timeZone: "Mars/Olympus" },
    { replicas: 2 },
    { port: 80 },
    { healthCheckPath: "/" },
    { autoscaling: { max: 2 } },
    { minReadySeconds: 1 },
  ])
    expect(await change(config)).toMatch("422 validation_failed");
  const worker = { ...environment, name: "worker", type: "worker", config: { schedule: "@hourly" } };
  expect(await refused(catalog.createService(worker))).toMatch("422 validation_failed");
});

test("before its first deployment, and while its account is suspended, no time starts anything", async () => {
  const { catalog, environment, path, due, list, accountId, runs } = await cronService(berth, {});
  const { id: newOne } = await catalog.createService({
    ...environment,
    name: "new",
    type: "cron",
    config: { schedule: "* * * * *" },
  });
  expect((await catalog.getService(environment.at("new"))).nextRunAt).toBeUndefined();
  const report = (reason: string, revision: bigint) =>
    berth.variables.publish(SuspensionChangedSchema, accountId, { accountId, reason, revision });
  await report("free_plan", 1n);
  await eventually("it is suspended", async () => (await catalog.getService(path)).suspended === "free_plan");
  await due();
  expect(await list()).toEqual([]);
  expect(await refused(runs.createRun(path))).toBe("403 compute_suspended");
  await report("", 2n);
  await eventually("it goes on", async () => (await catalog.getService(path)).nextRunAt !== undefined);

  await berth.pool.query("update schedules set next_at = now() - interval '1 minute' where service_id = $1", [
    newOne,
  ]);
  // One that could not be started would be tried again, before all others.
  await eventually("the time of a service that was never deployed passes", async () => {
    await due();
    const text = "select from schedules where service_id = $1 and next_at > now()";
    return (await berth.pool.query(text, [newOne])).rows.length === 1;
  });
  expect((await runs.listRuns(environment.at("new"))).data).toEqual([]);
});

test("two processes start one run of each time", async () => {
  const services = await Promise.all([1, 2, 3].map(() => cronService(berth, { command: "true" })));
  const deps = {
    ...{ pool: berth.pool, entitlementsOf: freePlan },
    ...{ log: createLog("deployer", "silent"), wake: () => {} },
  };
  await Promise.all(services.map(({ makeDue }) => makeDue()));
  const both = [1, 2].map(() => startScheduled(deps));
  for (const { untilRuns } of services) await untilRuns(1, "succeeded");
  await Promise.all(both.map((one) => one.stop()));
  for (const { list } of services) expect(await list()).toHaveLength(1);
});

test("a cron service rolls back as others do, with its schedule as it is now", async () => {
  const { deployments, deployArchive, path, until, catalog } = await cronService(berth, {});
  await deployArchive(path, await archiveOf({ "index.html": "two" }));
  await until(path, 2, "applied");
  await eventually(
    "it is healthy",
    async () => (await deployments.getDeployment({ ...path, version: 2 })).healthyAt,
  );
  await deployments.rollback({ ...path, version: 1 });
  await until(path, 3, "applied");
  await eventually("it is live", async () => (await catalog.getService(path)).liveVersion === 3);
});

test("any number of services whose deletion is held up delay no others", async () => {
  const { id, due, untilRuns } = await cronService(berth, {});
  // Nobody works on these: what is left of them stays.
  await berth.pool.query(
    `with deleted as (
       insert into services (id, account_id, project_id, environment_id, name, type, source, config, staged, deleting_at)
       select id || n, account_id, project_id, environment_id, name || n, type, source, config, false, now()
       from services, generate_series(1, 100) n where id = $1 returning id)
     insert into schedules (service_id, next_at) select id, now() - interval '1 hour' from deleted`,
    [id],
  );
  await due();
  await untilRuns(1, "succeeded");
});

test("any number of services whose runs cannot be started delay no others", async () => {
  const { id, due, untilRuns } = await cronService(berth, {});
  await berth.pool.query(
    `with broken as (
       insert into services (id, account_id, project_id, environment_id, name, type, source, config, staged)
       select id || n, account_id, project_id, environment_id, name || n, type, source,
         config || '{"schedule": "no schedule"}', false
       from services, generate_series(1, 100) n where id = $1 returning id)
     insert into schedules (service_id, next_at) select id, now() - interval '1 hour' from broken`,
    [id],
  );
  await due();
  await untilRuns(1, "succeeded");
});
