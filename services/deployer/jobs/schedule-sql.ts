import { type Db, execute, many, one, type Tx } from "../../kit/postgres/db.ts";
import { epochMs } from "../shared/epoch-ms.ts";
import type { StoredConfig } from "../terms/stored-config.ts";

/** Sets when the next run of a service is due (ms); undefined when none is. */
export function setNext(tx: Tx, serviceId: string, at: number | undefined) {
  if (at === undefined)
    return execute(tx, "schedule_remove", "delete from schedules where service_id = $1", [serviceId]);
  return execute(
    tx,
    "schedule_set",
    `insert into schedules (service_id, next_at) values ($1, $2)
     on conflict (service_id) do update set next_at = $2`,
    [serviceId, new Date(at).toISOString()],
  );
}

/** Returns the services, except for some, whose next run is due, the longest first. */
export async function listDue(db: Db, except: string[], limit: number): Promise<string[]> {
  const text = `select service_id as id from schedules where next_at <= now() and service_id <> all($1)
    order by next_at limit $2`;
  return (await many<{ id: string }>(db, "schedules_due", text, [except, limit])).map(({ id }) => id);
}

/**
 * Returns in how many ms the next run of any service, except for some, is due, less than 0 when it was before; undefined when
 * none is.
 */
export async function msUntilNext(db: Db, except: string[]): Promise<number | undefined> {
  const text = `select ${epochMs("min(next_at)")} - ${epochMs("now()")} as "inMs" from schedules
    where service_id <> all($1)`;
  return (await one<{ inMs?: number | null }>(db, "schedules_next", text, [except]))?.inMs ?? undefined;
}

export type ScheduledService = {
  accountId: string;
  config: StoredConfig;
  /** Null before the first deployment. */
  liveVersion: number | null;
  deleting: boolean;
  suspended: boolean;
  /** Times in ms. */
  dueAt: number;
  now: number;
};

/** Locks a service with a schedule: what happens at a time of it is decided once. */
export function lockScheduled(tx: Tx, serviceId: string) {
  return one<ScheduledService>(
    tx,
    "schedule_lock",
    `select s.account_id as "accountId", s.config, s.live_version as "liveVersion", s.deleting_at is not null as deleting,
       (select a.suspended from accounts a where a.id = s.account_id) is not null as suspended,
       ${epochMs("w.next_at")} as "dueAt", ${epochMs("clock_timestamp()")} as now
     from services s join schedules w on w.service_id = s.id where s.id = $1 for no key update of s, w`,
    [serviceId],
  );
}

/** Lists the runs of a service's start command that have not ended. */
export async function listActive(tx: Tx, serviceId: string): Promise<string[]> {
  const text = `select id from runs where service_id = $1 and command is null and status in ('queued', 'running')`;
  return (await many<{ id: string }>(tx, "schedule_active", text, [serviceId])).map(({ id }) => id);
}

/** Cancels runs, as a later one replaces them. */
export function replaceRuns(tx: Tx, ids: string[]) {
  return execute(
    tx,
    "schedule_replace",
    `update runs set status = 'canceled', finished_at = now(), due_at = now(), turn = turn + 1,
       message = 'Replaced by the next run of the schedule.'
     where id = any($1) and status in ('queued', 'running')`,
    [ids],
  );
}
