import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { Candidate } from "./to-suspend.ts";

/** Lists the web, worker and cron services of an account that may run, and locks them. */
export function lockCandidates(db: Db, accountId: string) {
  return many<Candidate>(
    db,
    "suspension_candidates",
    `select s.id, s.type, coalesce((s.config -> 'replicas')::int, 1) as replicas, s.config ->> 'size' as size,
       s.config -> 'autoscaling' as autoscaling, s.live_version is not null as live, s.suspended is not null as suspended
     from projects p join services s on s.project_id = p.id
     where p.account_id = $1 and s.type in ('web', 'worker', 'cron') and s.deleting_at is null and not s.staged
     order by s.id for no key update of s`,
    [accountId],
  );
}

/** Records why an account's services are stopped, unless something newer is recorded. Returns 0 then. */
export function setSuspension(db: Db, accountId: string, reason: string | undefined, revision: bigint) {
  return execute(
    db,
    "account_suspension_set",
    `insert into accounts as a (id, suspended, suspension_revision) values ($1, $2, $3)
     on conflict (id) do update set suspended = $2, suspension_revision = $3
     where a.suspension_revision <= $3`,
    [accountId, reason ?? null, revision],
  );
}

/** Stops these services of an account, and no others. Returns those that change. */
export async function setSuspended(db: Db, ids: string[], stopped: string[], reason: string | undefined) {
  const changed = await many<{ id: string }>(
    db,
    "services_suspend",
    `update services s set suspended = w.reason
     from (select id, case when id = any($2) then $3::text end as reason from unnest($1::text[]) id) w
     where s.id = w.id and s.suspended is distinct from w.reason returning s.id`,
    [ids, stopped, reason ?? null],
  );
  return changed.map(({ id }) => id);
}

/** Has services looked at, in this order as far as nothing else is due. */
export function enqueueInOrder(db: Db, ids: string[]) {
  return execute(
    db,
    "suspension_enqueue",
    `update work w set next_at = now() - (cardinality($1::text[]) - o.n) * interval '1 ms'
     from unnest($1::text[]) with ordinality as o (id, n) where w.service_id = o.id`,
    [ids],
  );
}

/** Returns why an account's services beyond the allowance are stopped; undefined when they are not. */
export async function findSuspension(db: Db, accountId: string): Promise<string | undefined> {
  const text = "select suspended from accounts where id = $1";
  const row = await one<{ suspended: string | null }>(db, "account_suspended", text, [accountId]);
  return row?.suspended ?? undefined;
}

/** The same, and other transactions that do this wait until this one ends. */
export async function lockSuspension(db: Db, accountId: string): Promise<string | undefined> {
  const text = "select suspended from accounts where id = $1 for no key update";
  const row = await one<{ suspended: string | null }>(db, "account_suspended_lock", text, [accountId]);
  return row?.suspended ?? undefined;
}

/** Whether another service of a type in an account runs, or is about to. */
export async function runsAnother(db: Db, accountId: string, type: string, id: string): Promise<boolean> {
  const text = `select from projects p join services s on s.project_id = p.id
    where p.account_id = $1 and s.type = $2 and s.id <> $3 and s.deleting_at is null and not s.staged
      and s.suspended is null and (s.config ->> 'replicas') is distinct from '0' and (s.live_version is not null or s.addon_state is not null or exists (
        select from deployments d where d.service_id = s.id and d.status in ('queued', 'building', 'built')))
    limit 1`;
  return (await one(db, "suspension_runs_another", text, [accountId, type, id])) !== undefined;
}

/** Lets a stopped service run. Returns 0 when it was not stopped. */
export function setRunning(db: Db, id: string) {
  const text = "update services set suspended = null where id = $1 and suspended is not null";
  return execute(db, "service_resume", text, [id]);
}

/** Cancels the runs of an account that have not ended. Returns the cron services of which some were. */
export async function cancelRuns(db: Db, accountId: string): Promise<string[]> {
  const canceled = await many<{ id: string; type: string }>(
    db,
    "suspension_cancel_runs",
    `update runs r set status = 'canceled', finished_at = now(), due_at = now(), turn = turn + 1,
       message = 'Canceled: nothing pays for it any longer.'
     from services s where s.id = r.service_id and r.account_id = $1 and r.status in ('queued', 'running')
     returning s.id, s.type`,
    [accountId],
  );
  return [...new Set(canceled.filter(({ type }) => type === "cron").map(({ id }) => id))];
}
