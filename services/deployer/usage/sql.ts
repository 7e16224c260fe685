import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import { epochMs } from "../shared/epoch-ms.ts";

/** What a service uses. */
export type Amount = { replicas: number; size: string };

/** An interval as its events show it. */
export type IntervalRow = Amount & {
  accountId: string;
  projectId: string;
  environmentId: string;
  serviceId: string;
  serviceType: string;
  intervalId: string;
  seq: number;
};

const INTERVAL = `account_id as "accountId", project_id as "projectId", environment_id as "environmentId",
  service_id as "serviceId", type as "serviceType", size, replicas, id as "intervalId"`;
const HEARTBEAT = "interval '5 minutes'";
/** Shorter than the pause between two records, so that of several processes one makes them. */
const JUST_SEEN = "interval '50 seconds'";

/** Locks a service and returns what is recorded of its usage, times in ms; undefined when it is being deleted. */
export function lockUsage(db: Db, serviceId: string) {
  return one<{
    now: number;
    size: string;
    recordedUntil?: number;
    open?: Amount & { seenAt: number };
  }>(
    db,
    "usage_lock",
    `select floor(${epochMs("clock_timestamp()")}) as now, s.config ->> 'size' as size,
       ${epochMs("s.usage_at")} as "recordedUntil",
       (select jsonb_build_object('replicas', u.replicas, 'size', u.size, 'seenAt', floor(${epochMs("u.seen_at")}))
        from usage_intervals u where u.service_id = s.id) as open
     from services s where s.id = $1 and s.deleting_at is null for no key update of s`,
    [serviceId],
  );
}

/** Returns how many runs of a service are under way. */
export async function countRunning(db: Db, serviceId: string): Promise<number> {
  const text = "select count(*)::int as n from runs where service_id = $1 and status = 'running'";
  return (await one<{ n: number }>(db, "usage_runs", text, [serviceId]))!.n;
}

/** Records the time of the last change that was recorded (ms). */
export function setRecordedUntil(db: Db, serviceId: string, at: number) {
  return execute(db, "usage_taken", "update services set usage_at = $2 where id = $1", [serviceId, iso(at)]);
}

export function openInterval(db: Db, id: string, serviceId: string, amount: Amount, at: number) {
  return one<IntervalRow>(
    db,
    "usage_open",
    `insert into usage_intervals (id, service_id, account_id, project_id, environment_id, type, size, replicas,
       started_at, seen_at, heartbeat_at)
     select $1, s.id, s.account_id, s.project_id, s.environment_id, s.type, $3, $4, $5, $5, $5
     from services s where s.id = $2
     on conflict on constraint usage_intervals_service do nothing returning ${INTERVAL}, seq`,
    [id, serviceId, amount.size, amount.replicas, iso(at)],
  );
}

export function resizeInterval(db: Db, serviceId: string, amount: Amount, at: number) {
  return one<IntervalRow>(
    db,
    "usage_resize",
    `update usage_intervals set size = $2, replicas = $3, seen_at = greatest(seen_at, $4), seq = seq + 1
     where service_id = $1 returning ${INTERVAL}, seq`,
    [serviceId, amount.size, amount.replicas, iso(at)],
  );
}

/** Ends intervals, never before they began; returns the time at which each ended, in ms. */
export function closeIntervals(db: Db, serviceIds: string[], at: number | undefined) {
  return many<IntervalRow & { endedMs: number }>(
    db,
    "usage_close",
    `delete from usage_intervals where service_id = any($1) returning ${INTERVAL}, seq + 1 as seq,
       floor(${epochMs("greatest(started_at, coalesce($2::timestamptz, now()))")}) as "endedMs"`,
    [serviceIds, at === undefined ? undefined : iso(at)],
  );
}

/**
 * Records that services run now, where that was not just done. Addons of the `shared` types run as long as they exist.
 * Returns the intervals whose heartbeat is due, each to one caller only.
 */
export function takeHeartbeats(db: Db, serviceIds: string[], shared: string[]) {
  return many<IntervalRow & { at: Timestamp }>(
    db,
    "usage_heartbeat",
    `with running as (
       select id as running_id, heartbeat_at <= now() - ${HEARTBEAT} as due from usage_intervals
       where (service_id = any($1) or type = any($2))
         and (seen_at < now() - ${JUST_SEEN} or heartbeat_at <= now() - ${HEARTBEAT})
       for update skip locked),
     seen as (
       update usage_intervals u set seen_at = greatest(seen_at, now()), seq = seq + due::int,
         heartbeat_at = case when due then greatest(seen_at, now()) else heartbeat_at end
       from running where id = running_id returning u.*)
     select ${INTERVAL}, seq, seen_at as at from seen where heartbeat_at = seen_at`,
    [serviceIds, shared],
  );
}

/** Returns the time of the last reported change as text; null when there is none. */
export function lastChangeAt({ usage }: { usage?: { at: number }[] }): string | null {
  const last = usage?.at(-1);
  return last ? iso(last.at) : null;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
