import { newId } from "../../kit/ids.ts";
import type { Logger } from "../../kit/log.ts";
import type { EntitlementsOf } from "../../kit/plans.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { type Next, startTask } from "../../kit/tasks/task.ts";
import { findRunLimit } from "../accounts/quotas.ts";
import { START_SCHEDULED } from "../tasks.ts";
import { decideDue, nextTime } from "../terms/schedule.ts";
import type { StoredConfig } from "../terms/stored-config.ts";
import { recordRunUsage } from "../usage/intervals.ts";
import { announceEnd } from "./announce-end.ts";
import { DEFAULT_RUN_SECONDS, MOST_OF_SERVICE } from "./limits.ts";
import * as schedules from "./schedule-sql.ts";
import * as sql from "./sql.ts";

const BATCH = 100;
const AT_ONCE = 5;
/** What is due and cannot be taken, as its service is being deleted, is not asked for again and again. */
const SOONEST_MS = 500;

type ScheduledDeps = {
  pool: Pool;
  entitlementsOf: EntitlementsOf;
  log: Logger;
  /** Has due runs moved on now. */
  wake: () => void;
};

/**
 * Starts the runs of cron services at the times of their schedules (docs/jobs.md#cron). The run and the next time are one
 * transaction under the service's lock, and a service has one run of each time: however many processes do this, and
 * whenever they are killed, none is doubled.
 */
export function startScheduled({ pool, entitlementsOf, log, wake }: ScheduledDeps) {
  async function startOne(serviceId: string): Promise<boolean> {
    try {
      await transaction(pool, (tx) => takeTime(tx, entitlementsOf, serviceId));
      return true;
    } catch (err) {
      log.warn({ err, service: serviceId }, "a scheduled run could not be started; trying again");
      return false;
    }
  }

  async function startDue(): Promise<Next> {
    const due = await schedules.listDue(pool, BATCH);
    let failed = false;
    for (let at = 0; at < due.length; at += AT_ONCE) {
      const done = await Promise.all(due.slice(at, at + AT_ONCE).map(startOne));
      failed ||= done.includes(false);
    }
    if (due.length > 0) wake();
    if (failed) return undefined;
    if (due.length === BATCH) return "more";
    const inMs = await schedules.msUntilNext(pool);
    return inMs === undefined ? undefined : { inMs: Math.max(inMs, SOONEST_MS) };
  }

  return startTask(START_SCHEDULED, startDue, { log });
}

/** Sets when a service runs next by its configuration, from now on. In the transaction that stores that. */
export async function reschedule(
  tx: Tx,
  serviceId: string,
  { schedule, timeZone }: StoredConfig,
): Promise<void> {
  await schedules.setNext(tx, serviceId, schedule ? nextTime({ schedule, timeZone }, Date.now()) : undefined);
}

async function takeTime(tx: Tx, entitlementsOf: EntitlementsOf, serviceId: string): Promise<void> {
  const service = await schedules.lockScheduled(tx, serviceId);
  if (!service || service.deleting || service.dueAt > service.now) return;
  const { accountId, config, liveVersion, suspended } = service;
  const { schedule = "", timeZone, overlap = "forbid" } = config;
  const { run, next } = schedule ? decideDue({ schedule, timeZone }, service.dueAt, service.now) : {};
  await schedules.setNext(tx, serviceId, next);
  if (run === undefined || liveVersion === null || suspended) return;
  const active = overlap === "allow" ? [] : await schedules.listActive(tx, serviceId);
  if (active.length > 0 && overlap === "forbid") return;
  if (active.length > 0) {
    await schedules.replaceRuns(tx, active);
    await recordRunUsage(tx, serviceId);
  }
  const timeoutSeconds = config.runTimeoutSeconds ?? DEFAULT_RUN_SECONDS;
  const id = newId("run");
  const made = { id, accountId, serviceId, timeoutSeconds, version: liveVersion, scheduledFor: run };
  const refusal = await findRefusal(tx, entitlementsOf, accountId, serviceId);
  const inserted = await sql.insertRun(tx, { ...made, ...(refusal && { refusal }) });
  if (inserted && refusal)
    await announceEnd(tx, { ...made, trigger: "schedule" }, { status: "failed", message: refusal });
  await sql.pruneRuns(tx, serviceId);
}

/** Returns why one more run must not begin, as a sentence. */
async function findRefusal(tx: Tx, entitlementsOf: EntitlementsOf, accountId: string, serviceId: string) {
  const limit = await findRunLimit(tx, entitlementsOf, accountId);
  if ((await sql.countActive(tx, accountId)) >= limit)
    return `It did not start: on this plan, runs at once are limited to ${limit}.`;
  if ((await sql.countActiveOf(tx, accountId, serviceId)) >= MOST_OF_SERVICE)
    return `It did not start: ${MOST_OF_SERVICE} runs of this service had not ended.`;
  return undefined;
}
