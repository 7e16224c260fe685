import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { cronService } from "../jobs/testing.ts";
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

test.each(["kept", "lost"] as const)(
  "killed as a time of a schedule is dealt with, and that is %s: it has one run, and the next time follows",
  async (outcome) => {
    await deployer.run();
    const { id, makeDue, list, untilRuns } = await cronService(platform, {});
    const held = await holdCommits(platform, "insert", "runs", "true");
    await makeDue();
    await held.reached();
    await deployer.end("SIGKILL");
    await held.release(outcome);
    await deployer.run();
    await untilRuns(1, "succeeded");
    const { rows } = await platform.pool.query(
      "select next_at > now() as later from schedules where service_id = $1",
      [id],
    );
    expect(rows).toEqual([{ later: true }]);
    expect(await list()).toHaveLength(1);
  },
);

test("after a long pause the latest time is caught up once, and times before it are skipped", async () => {
  await deployer.run();
  const { id, untilRuns } = await cronService(platform, {});
  await deployer.end("SIGTERM");
  await platform.pool.query(
    `with set as (update services set config = config || '{"schedule": "*/30 * * * *"}' where id = $1)
     update schedules set next_at = date_trunc('hour', now()) - interval '5 hours' where service_id = $1`,
    [id],
  );
  await deployer.run();
  const [run] = await untilRuns(1, "succeeded");
  const age = Date.now() - Number(run!.scheduledFor!.seconds) * 1_000;
  expect(age).toBeGreaterThanOrEqual(0);
  expect(age).toBeLessThan(31 * 60_000);
  await eventually("the next time is due later", async () => {
    const { rows } = await platform.pool.query(
      "select from schedules where service_id = $1 and next_at > now()",
      [id],
    );
    return rows.length === 1;
  });
});

test("ten thousand schedules that are not due are looked at by an index", async () => {
  await deployer.run();
  const { untilRuns, makeDue } = await cronService(platform, {});
  await platform.pool.query("alter table schedules drop constraint schedules_service_id_fkey");
  await platform.pool.query(
    "insert into schedules (service_id, next_at) select 'svc_' || n, now() + interval '1 day' from generate_series(1, 10000) n",
  );
  await platform.pool.query("analyze schedules");
  const { rows } = await platform.pool.query(
    "explain select service_id as id from schedules where next_at <= now() and service_id <> all('{svc_a}') order by next_at limit 100",
  );
  expect(JSON.stringify(rows)).toContain("schedules_next");
  await makeDue();
  await untilRuns(1, "succeeded");
});
