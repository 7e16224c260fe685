import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../../kit/postgres/db.ts";
import type { Segment, UsageEvent } from "../segments.ts";

export type ServiceRow = {
  serviceId: string;
  accountId: string;
  projectId: string;
  type: string;
  name?: string;
  /** Since when it has the name. */
  namedAt?: Timestamp;
};

/** Records a service, or its name once it is known, unless a later one is. Returns its number. */
export async function upsertService(db: Db, service: ServiceRow): Promise<number> {
  const { serviceId, accountId, projectId, type, name, namedAt } = service;
  const row = await one<{ number: number }>(
    db,
    "usage_service_upsert",
    `insert into usage_services as known (service_id, account_id, project_id, type, name, named_at)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (service_id) do update set
       name = case when known.name is null or excluded.named_at >= known.named_at or known.named_at is null
         then coalesce(excluded.name, known.name) else known.name end,
       named_at = greatest(excluded.named_at, known.named_at)
     returning number`,
    [serviceId, accountId, projectId, type, name, namedAt && timestampDate(namedAt)],
  );
  return row!.number;
}

export function upsertProject(db: Db, projectId: string, name: string): Promise<number> {
  return execute(
    db,
    "usage_project_upsert",
    `insert into usage_projects (project_id, name) values ($1, $2)
     on conflict (project_id) do update set name = excluded.name`,
    [projectId, name],
  );
}

/** Whether the names of a service and of its project are known. */
export async function isNamed(db: Db, serviceId: string): Promise<boolean> {
  const text = `select 1 from usage_services join usage_projects using (project_id)
    where service_id = $1 and usage_services.name is not null`;
  return (await one(db, "usage_service_is_named", text, [serviceId])) !== undefined;
}

/**
 * Locks an account's ledger and returns until when it is frozen (s). An account that is new to billing begins with the
 * period from `start`.
 */
export async function lockAccount(db: Db, accountId: string, start: number): Promise<number> {
  const row = await one<{ frozenUntil: number }>(
    db,
    "usage_account_lock",
    `insert into usage_accounts (account_id, frozen_until, freeze_at, alert_at)
     values ($1, to_timestamp($2), to_timestamp($2), to_timestamp($2))
     on conflict (account_id) do update set account_id = excluded.account_id
     returning extract(epoch from frozen_until)::bigint as "frozenUntil"`,
    [accountId, start],
  );
  return row!.frozenUntil;
}

/** Has the next pass compare an account's spend with its budget. */
export function scheduleAlert(db: Db, accountId: string): Promise<number> {
  const text = "update usage_accounts set alert_at = to_timestamp(0) where account_id = $1";
  return execute(db, "usage_alert_expect", text, [accountId]);
}

/** Lists the events of an interval; `at` in ms. */
export function listEvents(db: Db, intervalId: string) {
  return many<UsageEvent>(
    db,
    "usage_events_list",
    `select seq, kind, size, replicas, floor(extract(epoch from at) * 1000)::bigint as at from usage_events
     where interval_id = $1`,
    [intervalId],
  );
}

export function insertEvent(db: Db, intervalId: string, serviceId: string, event: UsageEvent) {
  return execute(
    db,
    "usage_event_insert",
    `insert into usage_events (interval_id, seq, kind, service_id, size, replicas, at)
     values ($1, $2, $3, $4, $5, $6, $7)`,
    [intervalId, event.seq, event.kind, serviceId, event.size, event.replicas, new Date(event.at)],
  );
}

/** An interval of a service as its segments show it; times in seconds. */
export type IntervalRow = { intervalId: string; start: number; lastSeen: number };

/** Lists an interval, and those of its service that did not end before a time; oldest first. */
export function listIntervals(db: Db, serviceNumber: number, intervalId: string, since: number) {
  return many<IntervalRow>(
    db,
    "usage_intervals_list",
    `select interval_id as "intervalId", extract(epoch from min(started_at))::bigint as start,
       extract(epoch from max(last_seen_at))::bigint as "lastSeen"
     from usage_segments
     where interval_id = $2 or int8range(service_number, service_number, '[]') = int8range($1, $1, '[]')
       and tstzrange(started_at, ended_at) && tstzrange(to_timestamp($3), null)
     group by interval_id order by start, interval_id`,
    [serviceNumber, intervalId, since],
  );
}

export function deleteSegments(db: Db, intervalId: string, except: number[]): Promise<number> {
  const text = "delete from usage_segments where interval_id = $1 and seq <> all($2)";
  return execute(db, "usage_segments_delete", text, [intervalId, except]);
}

export type SegmentRow = Segment & { intervalId: string; lastSeen: number; rate: bigint };

type Owner = { accountId: string; serviceId: string; number: number; priceVersion: string };

/** Writes the segments of a service that changed. Those that are there keep their rates. */
export function upsertSegments(db: Db, owner: Owner, segments: SegmentRow[]): Promise<number> {
  const column = <T>(of: (segment: SegmentRow) => T) => segments.map(of);
  return execute(
    db,
    "usage_segments_upsert",
    `insert into usage_segments (account_id, service_id, service_number, price_version, interval_id, seq, size, replicas,
       rate, started_at, ended_at, last_seen_at)
     select $1, $2, $3, $4, interval_id, seq, size, replicas, rate, to_timestamp(s), to_timestamp(e), to_timestamp(seen)
     from unnest($5::text[], $6::int[], $7::text[], $8::int[], $9::bigint[], $10::float8[], $11::float8[], $12::float8[])
       t (interval_id, seq, size, replicas, rate, s, e, seen)
     where not exists (select from usage_segments known where known.interval_id = t.interval_id and known.seq = t.seq
       and known.started_at = to_timestamp(s) and known.ended_at = to_timestamp(e))
     on conflict (interval_id, seq) do update set started_at = excluded.started_at, ended_at = excluded.ended_at,
       last_seen_at = excluded.last_seen_at`,
    [
      owner.accountId,
      owner.serviceId,
      owner.number,
      owner.priceVersion,
      column(({ intervalId }) => intervalId),
      column(({ seq }) => seq),
      column(({ size }) => size),
      column(({ replicas }) => replicas),
      column(({ rate }) => String(rate)),
      column(({ start }) => start),
      column(({ end }) => end ?? null),
      column(({ lastSeen }) => lastSeen),
    ],
  );
}
