import { type Db, execute, many } from "../../kit/postgres/db.ts";

/** Class of the advisory locks, one per process, that show which lease owners are alive. */
export const OWNER_CLASS = 1_111_839_316;
export const LEASE_SECONDS = 60;

const LEASE_END = `now() + make_interval(secs => ${LEASE_SECONDS})`;
/** The earlier of when the service is due already and the milliseconds of parameter 3 from now. */
const NEXT_AT = "least(next_at, now() + make_interval(secs => $3::float8 / 1000))";

/** SQL of the channel on which the reconcilers of this schema listen. */
export const CHANNEL = "'deployer:' || current_schema()";

// A lease is free once it has expired, or at once when its owner's session has ended: a killed process.
const FREE = `(w.lease_owner is null or w.lease_until < now() or not exists (
  select from pg_locks l where l.locktype = 'advisory' and l.classid = ${OWNER_CLASS}
    and l.objid = w.lease_owner::oid and l.objsubid = 2
    and l.database = (select oid from pg_database where datname = current_database())))`;

/**
 * For `returning` of a statement that is a transaction of its own: its commit does not wait for the disk. What a
 * crash of the database undoes is found by the next comparison and done again.
 */
export const RELAXED = "set_config('synchronous_commit', 'off', true)";

/** Makes services due now, and notifies the reconcilers when the transaction commits. */
export async function enqueue(db: Db, serviceIds: string[]): Promise<void> {
  if (serviceIds.length === 0) return;
  await many(
    db,
    "work_enqueue",
    `with due as (update work set next_at = now() where service_id = any($1))
     select pg_notify(${CHANNEL}, '')`,
    [serviceIds],
  );
}

/** Makes due the services whose deployments wait for one of the addons. */
export async function wakeAwaiting(db: Db, addonIds: string[]): Promise<void> {
  const found = await many<{ serviceId: string }>(
    db,
    "deployment_awaiting",
    `select s.id as "serviceId" from services a join services s on s.environment_id = a.environment_id
     join deployments d on d.service_id = s.id
     where a.id = any($1) and d.status in ('queued', 'built') and a.name = any(d.awaits)`,
    [addonIds],
  );
  await enqueue(
    db,
    found.map((row) => row.serviceId),
  );
}

export async function notifyReconcilers(db: Db): Promise<void> {
  await many(db, "work_notify", `select pg_notify(${CHANNEL}, '')`);
}

/**
 * Leases at most `limit` services to the owner and returns them: those that are due, those whose owner has died, and
 * its own that are not `inProgress`. First those with a deployment, which somebody waits for. A service in progress is
 * returned only if it is due and still leased to the owner: with the lease it lost the work to another process.
 */
export function claim(db: Db, owner: number, inProgress: string[], limit: number) {
  return many<{ serviceId: string }>(
    db,
    "work_claim",
    `with due as (
       select w.service_id from work w
       where (w.lease_owner = $1 and (w.next_at <= now() or w.service_id <> all($3)))
         or ((w.next_at <= now() or w.lease_owner is not null) and w.service_id <> all($3) and ${FREE})
       order by w.service_id in (select service_id from deployments where status in ('queued', 'built')) desc,
         w.next_at
       limit $2 for update skip locked)
     update work w set next_at = null, lease_owner = $1, lease_until = ${LEASE_END}
     from due where w.service_id = due.service_id returning w.service_id as "serviceId", ${RELAXED}`,
    [owner, limit, inProgress],
  );
}

/** Prolongs the lease for another step, which serves all that was due; returns 0 when the lease was lost. */
export function resume(db: Db, owner: number, serviceId: string) {
  return execute(
    db,
    "work_resume",
    `update work set next_at = null, lease_until = ${LEASE_END}
     where service_id = $2 and lease_owner = $1 returning ${RELAXED}`,
    [owner, serviceId],
  );
}

/** Gives a lease up; the service is due in `wakeInMs`, or earlier if it was enqueued meanwhile. */
export function release(db: Db, owner: number, serviceId: string, wakeInMs: number | undefined) {
  return execute(
    db,
    "work_release",
    `update work set lease_owner = null, lease_until = null,
       next_at = ${NEXT_AT}
     where service_id = $2 and lease_owner = $1 returning ${RELAXED}`,
    [owner, serviceId, wakeInMs],
  );
}

/** Makes a service due as `release` does, but keeps the lease: work on it continues in this process. */
export function keepLease(db: Db, owner: number, serviceId: string, wakeInMs: number | undefined) {
  return execute(
    db,
    "work_later",
    `update work set next_at = ${NEXT_AT}
     where service_id = $2 and lease_owner = $1 returning ${RELAXED}`,
    [owner, serviceId, wakeInMs],
  );
}

/** Prolongs leases of the owner; returns the services that it still holds. */
export function renew(db: Db, owner: number, serviceIds: string[]) {
  return many<{ serviceId: string }>(
    db,
    "work_renew",
    `update work set lease_until = ${LEASE_END}
     where lease_owner = $1 and service_id = any($2) returning service_id as "serviceId"`,
    [owner, serviceIds],
  );
}

export function releaseAll(db: Db, owner: number) {
  return execute(
    db,
    "work_release_all",
    "update work set lease_owner = null, lease_until = null, next_at = now() where lease_owner = $1",
    [owner],
  );
}

/** Returns the milliseconds until the next service is due; undefined when none is going to be. */
export async function msUntilDue(db: Db): Promise<number | undefined> {
  const found = await many<{ ms: number | null }>(
    db,
    "work_next",
    "select (extract(epoch from min(next_at) - now()) * 1000)::float8 as ms from work where next_at is not null",
  );
  return found[0]?.ms ?? undefined;
}
