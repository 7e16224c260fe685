import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RunService } from "../../../proto/gen/berth/deployer/v1/runs_pb.ts";
import { newId } from "../../kit/ids.ts";
import { createLog } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { actAs, archiveOf, createWebService, freePlan } from "../testing/testing.ts";
import { startScheduled } from "./start-scheduled.ts";

const ENDED = ["succeeded", "failed", "canceled", "timed_out", "lost"];

/** A live web service whose runs are tested. A `file` of its own takes what commands say besides their output. */
export async function serviceWithRuns(platform: { port: number; dataDir: string }) {
  const web = await createWebService(platform.port);
  await web.deployArchive(web.path, await archiveOf({ "index.html": "one" }));
  await web.untilService(web.path, "running");
  const runs = clientAs(RunService, platform.port, { accountId: web.accountId, role: "owner" });
  const get = (runId: string) => runs.getRun({ ...web.path, runId });
  const file = join(platform.dataDir, `${web.id}.txt`);
  return {
    ...web,
    runs,
    get,
    file,
    run: (command: string, more: object = {}) => runs.createRun({ ...web.path, command, ...more }),
    logs: async (runId: string) => (await runs.getRunLogs({ ...web.path, runId })).logs,
    untilEnded: (runId: string) =>
      eventually("the run has ended", async () => {
        const found = await get(runId);
        return ENDED.includes(found.status) && found;
      }),
    written: () => (existsSync(file) ? readFileSync(file, "utf8") : ""),
    /** A command that says how often it ran, and waits for `go`. */
    waiting: `echo ran >> ${file}; echo begun; while [ ! -e ${file}.go ]; do sleep 0.05; done; echo done`,
    go: () => writeFileSync(`${file}.go`, ""),
    /** The folder of a run, which is there as long as the runtime holds something of it. */
    folderOf: (runId: string) =>
      join(platform.dataDir, "runtime", "runs", runId.toLowerCase().replace("_", "-")),
  };
}

const CRON_COMMANDS = {
  quick: () => "true",
  waiting: (file: string) => `while [ ! -e ${file}.go ]; do sleep 0.05; done`,
  failing: (file: string) => `[ -e ${file}.go ] || exit 3`,
  trapping: (file: string) =>
    `trap 'echo ended >> ${file}; exit 1' TERM; echo begun >> ${file}; while :; do sleep 0.05; done`,
};

/** A live cron service whose schedule is due once a year; a test makes its times come. */
export async function cronService(
  platform: { port: number; dataDir: string; pool: Pool },
  config: object,
  does: keyof typeof CRON_COMMANDS = "quick",
) {
  const file = join(platform.dataDir, `${newId("svc")}.txt`);
  const whole = { schedule: "0 0 1 1 *", command: CRON_COMMANDS[does](file), ...config };
  const acting = actAs(platform.port, newId("acc"));
  const environment = await acting.environment();
  const path = environment.at("cron");
  const { id } = await acting.catalog.createService({
    ...environment,
    name: "cron",
    type: "cron",
    config: whole,
  });
  await acting.deployArchive(path, await archiveOf({ "index.html": "one" }));
  await acting.untilService(path, "running");
  const runs = clientAs(RunService, platform.port, { accountId: acting.accountId, role: "owner" });
  const list = async () => (await runs.listRuns({ ...path, limit: 100 })).data;
  let minutes = 0;
  /** Makes a time of its schedule come that was not there yet: this minute, whose next is a year away, however slow the test. */
  const makeDue = async () => {
    minutes++;
    await platform.pool.query(
      `with set as (update services set config = config || jsonb_build_object('schedule',
         to_char(now() at time zone 'UTC', 'FMMI FMHH24 FMDD FMMM "*"')) where id = $1)
       update schedules set next_at = date_trunc('minute', now()) where service_id = $1`,
      [id],
    );
    // Of each minute one run is kept: those before stand for earlier ones.
    await platform.pool.query(
      "update runs set scheduled_for = scheduled_for - make_interval(mins => $2) where service_id = $1 and scheduled_for is not null",
      [id, minutes],
    );
  };
  return {
    ...acting,
    environment,
    path,
    id,
    runs,
    list,
    makeDue,
    waiting: whole.command,
    go: () => writeFileSync(`${file}.go`, ""),
    written: () => (existsSync(file) ? readFileSync(file, "utf8") : ""),
    logs: async (runId: string) => (await runs.getRunLogs({ ...path, runId })).logs,
    untilEnded: (runId: string) =>
      eventually("the run has ended", async () => {
        const found = await runs.getRun({ ...path, runId });
        return ENDED.includes(found.status) && found;
      }),
    untilRuns: (count: number, status: string) =>
      eventually(`${count} runs are ${status}`, async () => {
        const all = await list();
        return all.length === count && all.every((one) => one.status === status) && all;
      }),
    /** A time of its schedule comes, and is dealt with. */
    async due() {
      await makeDue();
      // As a deployer does every few seconds.
      const scheduler = startScheduled({
        ...{ pool: platform.pool, entitlementsOf: freePlan },
        ...{ log: createLog("deployer", "silent"), wake: () => {} },
      });
      await eventually("the time is dealt with", async () => {
        const { rows } = await platform.pool.query(
          "select from schedules where service_id = $1 and next_at > now()",
          [id],
        );
        return rows.length === 1;
      });
      await scheduler.stop();
    },
  };
}
