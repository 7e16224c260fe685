import { newId } from "../../kit/ids.ts";
import type { Logger } from "../../kit/log.ts";
import type { EntitlementsOf } from "../../kit/plans.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { type Next, startTask } from "../../kit/tasks/task.ts";
import { findRunLimit } from "../accounts/quotas.ts";
import { createBackoff } from "../due/backoff.ts";
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
/** Of a service whose run could not be started: meanwhile the others have their turn. */
const PAUSES = { firstMs: 10_000, maxMs: 300_000 };

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
  const backoff = createBackoff(PAUSES);

  async function startOne(serviceId: string): Promise<void> {
    try {
      await transaction(pool, (tx) => takeTime(tx, entitlementsOf, serviceId));
      backoff.succeeded(serviceId);
    } catch (err) {
      const pauseMs = backoff.failed(serviceId);
      log.warn({ err, service: serviceId, pauseMs }, "a scheduled run could not be started; trying again");
    }
  }

  async function startDue(): Promise<Next> {
    const due = await schedules.listDue(pool, backoff.pausing(), BATCH);
    for (let at = 0; at < due.length; at += AT_ONCE)
      await Promise.all(due.slice(at, at + AT_ONCE).map(startOne));
    if (due.length > 0) wake();
    if (due.length === BATCH) return "more";
    const inMs = await schedules.msUntilNext(pool, backoff.pausing());
    return inMs === undefined ? undefined : { inMs: Math.max(inMs, 0) };
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
  if (!service || service.dueAt > service.now) return;
  const { accountId, config, deleting, liveVersion, suspended } = service;
  const { schedule = "", timeZone, overlap = "forbid" } = config;
  // One that is being deleted has no further times: they would stay due, before those of others.
  const { run, next } =
    schedule && !deleting ? decideDue({ schedule, timeZone }, service.dueAt, service.now) : {};
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
