import { create } from "@bufbuild/protobuf";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { ReleaseVariablesSchema } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { createLog } from "../../kit/log.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { accountImages } from "../images/account-images.ts";
import { startMovingRuns } from "../jobs/move-runs.ts";
import { serviceWithRuns } from "../jobs/testing.ts";
import type { Run } from "../runtime/port.ts";
import { endProcesses, findProcessesOf } from "../shared/process-tree.ts";
import { startTestPlatform, type TestPlatform } from "../testing/testing.ts";
import { type DeployerProcess, deployerProcess } from "../testing/testing-process.ts";

let platform: TestPlatform;
let deployer: DeployerProcess;

beforeAll(async () => {
  platform = await startTestPlatform();
  deployer = deployerProcess(platform);
});
afterEach(() => deployer.end("SIGTERM"));
afterAll(async () => {
  await deployer?.end("SIGKILL");
  await platform?.stop();
});

/** Nobody waits for the leases of a process that was killed. */
const endLeases = () => platform.pool.query("update runs set due_at = now() where due_at is not null");

async function restart() {
  await deployer.end("SIGKILL");
  await endLeases();
  await deployer.run();
}

test("killed while a command runs: it runs on, and the next start follows it to its end", async () => {
  await deployer.run();
  const { run, logs, waiting, go, untilEnded, written } = await serviceWithRuns(platform);
  const { id } = await run(waiting);
  await eventually("it runs", async () => (await logs(id)).includes("begun"));
  await restart();
  go();
  expect(await untilEnded(id)).toMatchObject({ status: "succeeded" });
  expect(written()).toBe("ran\n");
  expect(await logs(id)).toBe("begun\ndone\n");
});

test.each(["kept", "lost"] as const)(
  "killed between the start of a command and its record, which is %s: it ran once",
  async (outcome) => {
    await deployer.run();
    const { run, waiting, go, untilEnded, written } = await serviceWithRuns(platform);
    const held = await holdCommits(platform, "update", "runs", "new.status = 'running'");
    const { id } = await run(waiting);
    await held.reached();
    await deployer.end("SIGKILL");
    await held.release(outcome);
    await restart();
    go();
    expect(await untilEnded(id)).toMatchObject({ status: "succeeded", exitCode: 0 });
    expect(written()).toBe("ran\n");
  },
);

test("a command that ended with its machine is lost, and not run again", async () => {
  await deployer.run();
  const { run, logs, waiting, untilEnded, written, folderOf } = await serviceWithRuns(platform);
  const { id } = await run(waiting);
  await eventually("it runs", async () => (await logs(id)).includes("begun"));
  await deployer.end("SIGKILL");
  await endProcesses(undefined, folderOf(id), () => Date.now());
  expect(findProcessesOf(folderOf(id))).toEqual([]);
  await restart();
  const ended = await untilEnded(id);
  expect(ended.status).toBe("lost");
  expect(ended.message).toContain("was not run again");
  expect(written()).toBe("ran\n");
});

test("canceled as it was about to be recorded: nothing of it is left", async () => {
  await deployer.run();
  const { run, waiting, folderOf, get } = await serviceWithRuns(platform);
  const held = await holdCommits(platform, "update", "runs", "new.status = 'running'");
  const { id: runId } = await run(waiting);
  await held.reached();
  await deployer.end("SIGKILL");
  await held.release("lost");
  await platform.pool.query("update runs set status = 'canceled', finished_at = now() where id = $1", [
    runId,
  ]);
  await restart();
  await eventually("its processes are gone", async () => findProcessesOf(folderOf(runId)).length === 0);
  expect(await get(runId)).toMatchObject({ status: "canceled" });
});

test("two processes share the runs that are due: each is started by one", async () => {
  await deployer.run();
  const { id: serviceId, accountId } = await serviceWithRuns(platform);
  await deployer.end("SIGTERM");
  await platform.pool.query(
    `insert into runs (id, account_id, service_id, command, trigger, timeout_seconds, version)
     select 'run_many' || n, $1, $2, 'true', 'manual', 60, 1 from generate_series(1, 30) n`,
    [accountId, serviceId],
  );
  const started: string[] = [];
  const ended = new Set<string>();
  const runtime = {
    check() {},
    runs: {
      start: async ({ name }: Run) => void started.push(name),
      status: async () => ({ state: "succeeded" as const, exitCode: 0 }),
      output: async () => [],
      remove: async ({ name }: { name: string }) => void ended.add(name),
    },
  };
  const deps = {
    ...{ pool: platform.pool, runtime, minReadySeconds: 1, log: createLog("deployer", "silent") },
    ...{ images: accountImages(() => false, []), resolve: async () => create(ReleaseVariablesSchema) },
  };
  const both = [1, 2].map(() => startMovingRuns(deps));
  try {
    await eventually("all have ended", async () => ended.size === 30);
    expect(started.toSorted()).toEqual([...new Set(started)].toSorted());
    expect(started).toHaveLength(30);
  } finally {
    await Promise.all(both.map((one) => one.stop()));
  }
});
