import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { RunService } from "../../../proto/gen/berth/deployer/v1/runs_pb.ts";
import { newId } from "../../kit/ids.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { findProcessesOf } from "../shared/process-tree.ts";
import { archiveOf, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { serviceWithRuns } from "./testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

test("a run has the live release's files and the variables of its start; secrets are masked, and nothing is left of it", async () => {
  const { run, get, logs, id, untilEnded, folderOf, runs, path } = await serviceWithRuns(berth);
  berth.variables.set(id, [
    { name: "GREETING", value: "hello" },
    { name: "SECRET", value: "not-for-the-log", sensitive: true },
  ]);
  const made = await run(`echo "$GREETING $SECRET from $(cat index.html)"; echo problem >&2; exit 7`);
  expect(made).toMatchObject({ trigger: "manual", status: "queued", version: 1, timeoutSeconds: 3600 });
  expect(made.requestedBy).toBeTruthy();
  const ended = await untilEnded(made.id);
  expect(ended).toMatchObject({ status: "failed", exitCode: 7 });
  expect(ended.startedAt).toBeDefined();
  expect(ended.finishedAt).toBeDefined();
  expect(await logs(made.id)).toMatch(/^hello .* from one\nproblem\n$/);
  expect(await logs(made.id)).not.toContain("not-for-the-log");
  await eventually("nothing is left", async () => !existsSync(folderOf(made.id)));
  const fine = await run("true");
  expect(await untilEnded(fine.id)).toMatchObject({ status: "succeeded", exitCode: 0 });
  expect((await runs.listRuns(path)).data.map((one) => one.id)).toEqual([fine.id, made.id]);
  expect((await runs.listRuns({ ...path, status: "failed" })).data).toEqual([await get(made.id)]);
  const first = await runs.listRuns({ ...path, limit: 1 });
  expect(first.page).toMatchObject({ hasMore: true });
  const second = await runs.listRuns({ ...path, limit: 1, cursor: first.page!.nextCursor });
  expect(second.data.map((one) => one.id)).toEqual([made.id]);
});

test("the output of a run is followed live to its end, and from where a follower was", async () => {
  const { run, runs, path, waiting, go } = await serviceWithRuns(berth);
  const { id: runId } = await run(waiting);
  const seen: { id: string; event: { case?: string; value?: unknown } }[] = [];
  const followed = (async () => {
    for await (const message of runs.followRunLogs({ ...path, runId }))
      if (message.event.case) seen.push(message);
  })();
  await eventually("the first line came", async () => seen.length === 1);
  expect(seen[0]!.event).toMatchObject({ case: "piece", value: { logs: "begun\n" } });
  expect((await runs.getRunLogs({ ...path, runId })).live).toBe(true);
  go();
  await followed;
  expect(seen.map(({ event }) => event)).toMatchObject([
    { case: "piece", value: { logs: "begun\n" } },
    { case: "piece", value: { logs: "done\n" } },
    { case: "end", value: { status: "succeeded", exitCode: 0 } },
  ]);
  const rest: unknown[] = [];
  for await (const { event } of runs.followRunLogs({ ...path, runId, lastEventId: seen[0]!.id }))
    if (event.case) rest.push(event.case);
  expect(rest).toEqual(["piece", "end"]);
  expect((await runs.getRunLogs({ ...path, runId })).live).toBe(false);
});

test("a canceled run ends with its processes, and cannot be canceled again", async () => {
  const { run, runs, path, untilEnded, waiting, logs, folderOf } = await serviceWithRuns(berth);
  const { id: runId } = await run(waiting);
  await eventually("it runs", async () => (await logs(runId)).includes("begun"));
  expect(await runs.cancelRun({ ...path, runId })).toMatchObject({ status: "canceled" });
  await eventually("its processes are gone", async () => !existsSync(folderOf(runId)));
  expect(findProcessesOf(folderOf(runId))).toEqual([]);
  expect(await untilEnded(runId)).toMatchObject({ status: "canceled" });
  expect(await refused(runs.cancelRun({ ...path, runId }))).toBe("409 run_finished");
});

test("a run that takes longer than its limit is ended", async () => {
  const { run, untilEnded, folderOf, waiting } = await serviceWithRuns(berth);
  const { id } = await run(waiting, { timeoutSeconds: 1 });
  const ended = await untilEnded(id);
  expect(ended).toMatchObject({ status: "timed_out" });
  expect(ended.message).toContain("longer than 1 second");
  await eventually("its processes are gone", async () => !existsSync(folderOf(id)));
});

test("a run whose output cannot be recorded ends all the same, five minutes after its limit", async () => {
  const { run, waiting, go, get, written, id } = await serviceWithRuns(berth);
  const { id: runId } = await run(waiting);
  await eventually("it has begun", async () => written() === "ran\n");
  berth.variables.setAway(true);
  onTestFinished(() => berth.variables.setAway(false));
  go();
  const asked = berth.variables.asked();
  await eventually("its output was to be recorded", async () => berth.variables.asked() > asked);
  expect((await get(runId)).status).toBe("running");
  await berth.pool.query(
    "update runs set started_at = now() - make_interval(secs => timeout_seconds + 300) where service_id = $1",
    [id],
  );
  await eventually("it has ended", async () => (await get(runId)).status === "succeeded");
});

test("of a run's output the first 5000 lines are kept, and at most 1 MiB", async () => {
  const { run, runs, path, untilEnded } = await serviceWithRuns(berth);
  const many = await run("i=0; while [ $i -lt 6000 ]; do i=$((i+1)); echo $i; done");
  await untilEnded(many.id);
  const kept = await runs.getRunLogs({ ...path, runId: many.id });
  expect(kept.truncated).toBe(true);
  expect(kept.logs.trimEnd().split("\n")).toHaveLength(5000);
});

test("no run of an addon, of a service without a release, or of one that is being deleted", async () => {
  const { runs, catalog, environment, path } = await serviceWithRuns(berth);
  await catalog.createService({ ...environment, name: "db", type: "postgres" });
  await catalog.createService({ ...environment, name: "new", type: "worker" });
  const create = (name: string) => runs.createRun({ ...environment.at(name), command: "true" });
  expect(await refused(create("db"))).toMatch("422 validation_failed");
  expect(await refused(create("new"))).toBe("409 service_not_live");
  expect(await refused(runs.createRun(path))).toMatch("422 validation_failed");
  expect(await refused(runs.createRun({ ...path, command: "a\0b" }))).toMatch("422 validation_failed");
  expect(await refused(runs.getRun({ ...path, runId: newId("run") }))).toBe("404 not_found");
});

test("another account's runs are not there", async () => {
  const { run, path } = await serviceWithRuns(berth);
  const { id: runId } = await run("true");
  const stranger = clientAs(RunService, berth.port, { accountId: newId("acc"), role: "owner" });
  expect(await refused(stranger.getRun({ ...path, accountId: newId("acc"), runId }))).toMatch(/^40[34] /);
});

test("deleting a service ends its runs", async () => {
  const { run, catalog, path, waiting, logs, folderOf } = await serviceWithRuns(berth);
  const { id } = await run(waiting);
  await eventually("it runs", async () => (await logs(id)).includes("begun"));
  await catalog.deleteService({ ...path, confirmImpact: true });
  await eventually("its processes are gone", async () => !existsSync(folderOf(id)));
  expect(findProcessesOf(folderOf(id))).toEqual([]);
  await eventually("its row is gone", async () => {
    const { rows } = await berth.pool.query("select from runs where id = $1", [id]);
    return rows.length === 0;
  });
});

test("the newest hundred runs of a service are kept", async () => {
  const { id: serviceId, accountId, run, runs, path, untilEnded } = await serviceWithRuns(berth);
  await berth.pool.query(
    `insert into runs (id, account_id, service_id, command, trigger, timeout_seconds, status, version, due_at)
     select 'run_0' || lpad(n::text, 25, '0'), $1, $2, 'true', 'manual', 60, 'succeeded', 1, null from generate_series(1, 120) n`,
    [accountId, serviceId],
  );
  const { id } = await run("true");
  await untilEnded(id);
  const { data } = await runs.listRuns({ ...path, limit: 100 });
  const { rows } = await berth.pool.query("select from runs where service_id = $1", [serviceId]);
  expect([data[0]!.id, rows.length]).toEqual([id, 100]);
});

test("a run uses the release that is live when it starts", async () => {
  const { run, untilEnded, deployArchive, path, until, logs } = await serviceWithRuns(berth);
  await deployArchive(path, await archiveOf({ "index.html": "two" }));
  await until(path, 2, "applied");
  const { id } = await run("cat index.html");
  expect(await untilEnded(id)).toMatchObject({ status: "succeeded", version: 2 });
  expect(await logs(id)).toBe("two\n");
});

test("an artifact that is no longer retained is kept until the run that uses it has ended", async () => {
  const { run, id, logs, waiting, go, untilEnded, deployArchive, path, until } = await serviceWithRuns(berth);
  const made = await run(`${waiting}; cat index.html`);
  await eventually("it runs", async () => (await logs(made.id)).includes("begun"));
  await deployArchive(path, await archiveOf({ "index.html": "two" }));
  await until(path, 2, "applied");
  const { rows } = await berth.pool.query<{ artifact: string }>(
    "update deployments set leftover = true where service_id = $1 and version = 1 returning artifact",
    [id],
  );
  await berth.pool.query("update work set next_at = now() where service_id = $1", [id]);
  const folder = join(berth.dataDir, "artifacts", rows[0]!.artifact.replace("directory:", ""));
  await eventually("the service was looked at", async () => {
    const { rows: due } = await berth.pool.query(
      "select from work where service_id = $1 and next_at is null",
      [id],
    );
    return due.length === 1;
  });
  expect(existsSync(folder)).toBe(true);
  go();
  expect(await untilEnded(made.id)).toMatchObject({ status: "succeeded" });
  expect(await logs(made.id)).toContain("one");
  await eventually("the artifact is removed", async () => !existsSync(folder));
});
