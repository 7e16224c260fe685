import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one, type Tx } from "../../kit/postgres/db.ts";
import { isBelow } from "../../kit/postgres/paging.ts";
import { epochMs } from "../shared/epoch-ms.ts";

export type RunState = "queued" | "running" | "succeeded" | "failed" | "canceled" | "timed_out" | "lost";

/** How a run ended, unless it was canceled. */
export type RunEnd = {
  status: Exclude<RunState, "queued" | "running" | "canceled">;
  exitCode?: number;
  message?: string;
};

export type RunRow = {
  id: string;
  serviceId: string;
  command?: string;
  trigger: "manual" | "schedule";
  status: RunState;
  exitCode?: number;
  message?: string;
  version: number;
  timeoutSeconds: number;
  requestedBy?: string;
  createdAt: Timestamp;
  startedAt?: Timestamp;
  finishedAt?: Timestamp;
  scheduledFor?: Timestamp;
};

const SHOWN = `id, service_id as "serviceId", command, trigger, status, exit_code as "exitCode", message, version,
  timeout_seconds as "timeoutSeconds", requested_by as "requestedBy", created_at as "createdAt", started_at as "startedAt",
  finished_at as "finishedAt", scheduled_for as "scheduledFor"`;

export type NewRun = {
  id: string;
  accountId: string;
  serviceId: string;
  command?: string;
  timeoutSeconds: number;
  version: number;
  requestedBy?: string;
  /** The time of the schedule, in ms. */
  scheduledFor?: number;
  /** Why it must not begin. */
  refusal?: string;
};

/** Inserts a run, which is due at once; undefined when the service has one of this time. One that must not begin has failed. */
export async function insertRun(tx: Tx, run: NewRun): Promise<RunRow | undefined> {
  const scheduledFor = run.scheduledFor === undefined ? null : new Date(run.scheduledFor).toISOString();
  return one<RunRow>(
    tx,
    "run_insert",
    `insert into runs (id, account_id, service_id, command, timeout_seconds, version, requested_by, scheduled_for, message,
       trigger, status, finished_at, due_at)
     select $1, $2, $3, $4, $5, $6, $7, $8::timestamptz, $9::text, case when $8 is null then 'manual' else 'schedule' end,
       case when $9 is null then 'queued' else 'failed' end, case when $9 is not null then now() end,
       case when $9 is null then now() end
     on conflict (service_id, scheduled_for) where scheduled_for is not null do nothing returning ${SHOWN}`,
    [
      ...[run.id, run.accountId, run.serviceId, run.command ?? null, run.timeoutSeconds, run.version],
      ...[run.requestedBy ?? null, scheduledFor, run.refusal ?? null],
    ],
  );
}

/** How many runs of a service are kept, besides those of which the runtime still holds something. */
const KEPT = 100;

/** Deletes the oldest runs of a service that are more than are kept. */
export function pruneRuns(tx: Tx, serviceId: string) {
  return execute(
    tx,
    "runs_prune",
    `delete from runs where service_id = $1 and due_at is null
       and id <= (select id from runs where service_id = $1 order by id desc offset ${KEPT} limit 1)`,
    [serviceId],
  );
}

/** Returns how many runs of an account have not ended. */
export async function countActive(db: Db, accountId: string): Promise<number> {
  const text =
    "select count(*)::int as n from runs where account_id = $1 and status in ('queued', 'running')";
  return (await one<{ n: number }>(db, "runs_count", text, [accountId]))!.n;
}

/** Returns how many runs of a service have not ended. */
export async function countActiveOf(db: Db, accountId: string, serviceId: string): Promise<number> {
  const text = `select count(*)::int as n from runs
    where account_id = $1 and service_id = $2 and status in ('queued', 'running')`;
  return (await one<{ n: number }>(db, "runs_count_service", text, [accountId, serviceId]))!.n;
}

/** Lists the runs of a service, newest first. */
export function listRuns(
  db: Db,
  serviceId: string,
  status: string | undefined,
  before: string | undefined,
  limit: number,
) {
  return many<RunRow>(
    db,
    "runs_list",
    `select ${SHOWN} from runs
     where service_id = $1 and ($2::text is null or status = $2) and ${isBelow("id", "$3")}
     order by id desc limit $4`,
    [serviceId, status, before, limit],
  );
}

export function findRun(db: Db, serviceId: string, id: string) {
  const text = `select ${SHOWN} from runs where service_id = $1 and id = $2`;
  return one<RunRow>(db, "run_find", text, [serviceId, id]);
}

/** Cancels a run, which is due at once. What a process is doing for it meanwhile is not recorded. Undefined when it has ended. */
export function cancelRun(tx: Tx, serviceId: string, id: string) {
  return one<RunRow>(
    tx,
    "run_cancel",
    `update runs set status = 'canceled', finished_at = now(), message = null, due_at = now(), turn = turn + 1
     where service_id = $1 and id = $2 and status in ('queued', 'running') returning ${SHOWN}`,
    [serviceId, id],
  );
}

/** A run that this process may move on until its lease ends. Times in ms. */
export type TakenRun = Pick<RunRow, "id" | "serviceId" | "status" | "timeoutSeconds"> & {
  accountId: string;
  /** Null for the start command. */
  command: string | null;
  environmentId: string;
  type: string;
  trigger: RunRow["trigger"];
  now: number;
  createdAt: number;
  startedAt: number | null;
  turn: number;
};

/** Takes runs that are due; each is due again when the lease ends, unless something is recorded before. */
export function takeRuns(db: Db, { limit, leaseSeconds }: { limit: number; leaseSeconds: number }) {
  return many<TakenRun>(
    db,
    "runs_take",
    `with due as (
       select id from runs where due_at <= now() order by due_at limit $1 for update skip locked)
     update runs r set due_at = now() + make_interval(secs => $2), turn = turn + 1
     from due, services s where r.id = due.id and s.id = r.service_id
     returning r.id, r.account_id as "accountId", r.service_id as "serviceId", s.environment_id as "environmentId",
       s.type, r.trigger, r.command, r.status, r.timeout_seconds as "timeoutSeconds", ${epochMs("now()")} as now,
       ${epochMs("r.created_at")} as "createdAt", ${epochMs("r.started_at")} as "startedAt", r.turn`,
    [limit, leaseSeconds],
  );
}

/** Returns in how many ms the next run is due, less than 0 when it was before; undefined when none is. */
export async function msUntilDue(db: Db): Promise<number | undefined> {
  const text = `select ${epochMs("min(due_at)")} - ${epochMs("now()")} as "inMs" from runs where due_at is not null`;
  return (await one<{ inMs: number | null }>(db, "runs_next", text, []))?.inMs ?? undefined;
}

export type LockedOwner = {
  deleting: boolean;
  /** Whether a run of its start command has ended and is being removed, which those after it wait for. */
  busy: boolean;
  /** Why nothing of the account runs beyond its allowance. */
  suspended?: string | null;
};

/**
 * Locks the service of a run, so that it is not deleted or suspended meanwhile. A process that stalls for 60 s while it
 * holds the lock loses it.
 */
export function lockOwner(tx: Tx, serviceId: string) {
  return one<LockedOwner>(
    tx,
    "run_owner_lock",
    `select s.deleting_at is not null as deleting,
       s.config ->> 'overlap' is distinct from 'allow' and exists (select from runs r where r.service_id = s.id
         and r.command is null and r.status not in ('queued', 'running') and r.due_at is not null) as busy,
       coalesce(s.suspended, (select a.suspended from accounts a where a.id = s.account_id)) as suspended,
       set_config('idle_in_transaction_session_timeout', '60s', true)
     from services s where s.id = $1 for no key update of s`,
    [serviceId],
  );
}

type Turn = Pick<TakenRun, "id" | "turn">;

/** Records that a run starts, of which version. Returns 0 when it was canceled, or taken again. */
export function markStarted(tx: Tx, { id, turn }: Turn, version: number, dueInMs: number) {
  return execute(
    tx,
    "run_start",
    `update runs set status = 'running', started_at = now(), message = null, version = $3,
       due_at = now() + make_interval(secs => $4::float8 / 1000)
     where id = $1 and turn = $2 and status = 'queued'`,
    [id, turn, version, dueInMs],
  );
}

/** Has a run looked at later, and says why it waits. */
export function postpone(db: Db, { id, turn }: Turn, dueInMs: number, message?: string) {
  return execute(
    db,
    "run_postpone",
    `update runs set due_at = now() + make_interval(secs => $3::float8 / 1000), message = $4
     where id = $1 and turn = $2 and status in ('queued', 'running')`,
    [id, turn, dueInMs, message ?? null],
  );
}

/** Records how a run ended; it is due at once, to be removed from the runtime. Returns 0 when it was canceled, or taken again. */
export function markEnded(tx: Tx, { id, turn }: Turn, end: RunEnd) {
  return execute(
    tx,
    "run_end",
    `update runs set status = $3, exit_code = $4, message = $5, finished_at = now(), due_at = now()
     where id = $1 and turn = $2 and status in ('queued', 'running')`,
    [id, turn, end.status, end.exitCode ?? null, end.message ?? null],
  );
}

/** Whether the scheduled run of a service that ended last, besides this one, failed. Canceled ones do not count. */
export async function hasPreviousFailed(tx: Tx, serviceId: string, id: string): Promise<boolean> {
  const last = await one<{ failed: boolean }>(
    tx,
    "run_previous",
    `select status <> 'succeeded' as failed from runs
     where service_id = $1 and id <> $2 and trigger = 'schedule' and status in ('succeeded', 'failed', 'timed_out', 'lost')
     order by finished_at desc limit 1`,
    [serviceId, id],
  );
  return last?.failed ?? false;
}

/** Records that the runtime holds nothing of a run that has ended. An artifact that was kept for it alone may go now. */
export function markRemoved(db: Db, { id, turn }: Turn) {
  return execute(
    db,
    "run_removed",
    `with done as (
       update runs set due_at = null where id = $1 and turn = $2 and status not in ('queued', 'running')
       returning service_id)
     update work w set next_at = now() from done where w.service_id = done.service_id
       and exists (select from deployments d where d.service_id = done.service_id and d.leftover)`,
    [id, turn],
  );
}

/** Lists the runs of a service of which the runtime may hold something. */
export function listLeft(db: Db, serviceId: string) {
  return many<Pick<TakenRun, "id" | "serviceId" | "environmentId">>(
    db,
    "runs_left",
    `select r.id, r.service_id as "serviceId", s.environment_id as "environmentId"
     from runs r join services s on s.id = r.service_id where r.service_id = $1 and r.due_at is not null`,
    [serviceId],
  );
}

/** Returns how many lines and bytes the log of a run has. */
export async function countLines(db: Db, id: string): Promise<{ lines: number; bytes: number }> {
  const row = await one<{ lines: number; bytes: number }>(
    db,
    "run_log_lines",
    `select coalesce(max(seq + length(text) - length(replace(text, e'\\n', ''))), 0)::int as lines,
       coalesce(sum(octet_length(text)), 0)::int as bytes from run_logs where run_id = $1`,
    [id],
  );
  return row!;
}

/** Returns the version of a service's live release. */
export async function findLiveVersion(db: Db, serviceId: string): Promise<number | undefined> {
  const text = "select live_version as version from services where id = $1";
  return (
    (await one<{ version?: number | null }>(db, "run_live_version", text, [serviceId]))?.version ?? undefined
  );
}
