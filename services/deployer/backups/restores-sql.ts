import { type Db, execute, one, type Tx } from "../../kit/postgres/db.ts";

/** Whether an addon is being restored from a backup. */
export async function isBeingRestored(tx: Tx, backupId: string): Promise<boolean> {
  const text = "select service_id from restores where backup_id = $1 and status = 'running'";
  return (await one(tx, "backup_restoring", text, [backupId])) !== undefined;
}

/** Inserts the restore of an addon in place of its last one. Undefined while that is running. */
export function insertRestore(tx: Tx, serviceId: string, backupId: string) {
  return one<{ serviceId: string }>(
    tx,
    "restore_insert",
    `insert into restores as r (service_id, backup_id) values ($1, $2)
     on conflict (service_id) do update set backup_id = $2, status = 'running', failure = null, started_at = now(),
       finished_at = null, due_at = now(), attempts = 0, turn = r.turn + 1
     where r.status <> 'running' returning service_id as "serviceId"`,
    [serviceId, backupId],
  );
}

/** Returns the id of the backup that is being restored. */
export async function findRestoring(tx: Tx, serviceId: string): Promise<string | undefined> {
  const text = `select backup_id as "backupId" from restores where service_id = $1 and status = 'running'`;
  return (await one<{ backupId: string }>(tx, "restore_running", text, [serviceId]))?.backupId;
}

/** Work that this process may do until its lease ends. `attempts`: how many have failed. */
export type Taken = { serviceId: string; attempts: number; turn: number };
export type TakenRestore = Taken & { accountId: string; backupId: string };
/** `busy`: accounts of which nothing more is taken for now. */
export type Lease = { leaseSeconds: number; busy: string[] };

/** SQL that is true when what a restore `r` needs is there: its server, and, where it was begun by a fork, the backup. */
export const RESTORE_POSSIBLE = `exists (select from services s where s.id = r.service_id and s.addon_state = 'ready')
  and not exists (select from backups b where b.id = r.backup_id and b.status = 'running')`;

/** SQL that is true for a restore `r` of none of the accounts of the first value. */
export const RESTORE_OF_OTHERS =
  "exists (select from services s where s.id = r.service_id and s.account_id <> all($1::text[]))";

/** Takes a restore that is due. It is due again when the lease ends. */
export function takeRestore(db: Db, { leaseSeconds, busy }: Lease) {
  return one<TakenRestore>(
    db,
    "restore_take",
    `with due as (
       select service_id from restores r where due_at <= now() and ${RESTORE_POSSIBLE} and ${RESTORE_OF_OTHERS}
       order by due_at limit 1 for update skip locked)
     update restores r set due_at = now() + make_interval(secs => $2), turn = turn + 1
     from due join services s on s.id = due.service_id where r.service_id = due.service_id
     returning r.service_id as "serviceId", s.account_id as "accountId", r.backup_id as "backupId", r.attempts, r.turn`,
    [busy, leaseSeconds],
  );
}

/** Prolongs the lease of a restore. Returns 0 when its service is being deleted, or it was taken again. */
export function renewRestore(db: Db, { serviceId, turn }: TakenRestore, leaseSeconds: number) {
  return execute(
    db,
    "restore_renew",
    `update restores r set due_at = now() + make_interval(secs => $3) from services s
     where r.service_id = $1 and r.turn = $2 and r.status = 'running' and s.id = r.service_id and s.deleting_at is null`,
    [serviceId, turn, leaseSeconds],
  );
}

/** Records how a restore ended. Returns 0 when it was taken again. */
export function endRestore(tx: Tx, { serviceId, turn }: TakenRestore, failure: string | undefined) {
  return execute(
    tx,
    "restore_end",
    `update restores set status = case when $3::text is null then 'succeeded' else 'failed' end, failure = $3,
       finished_at = now(), due_at = null
     where service_id = $1 and turn = $2 and status = 'running'`,
    [serviceId, turn, failure ?? null],
  );
}

export function postponeRestore(db: Db, taken: TakenRestore, seconds: number, interrupted = false) {
  return execute(
    db,
    "restore_postpone",
    `update restores set due_at = now() + make_interval(secs => $3), attempts = attempts + $4
     where service_id = $1 and turn = $2 and due_at is not null`,
    [taken.serviceId, taken.turn, seconds, interrupted ? 0 : 1],
  );
}

/** Returns the key of a backup's object and whose it is; undefined when it did not succeed, or is being removed. */
export function findObject(db: Db, { backupId }: TakenRestore) {
  return one<{ key: string; serviceId: string; uploaded: boolean }>(
    db,
    "backup_object",
    `select object as key, service_id as "serviceId", trigger = 'uploaded' as uploaded from backups
     where id = $1 and status = 'succeeded' and deleting_at is null`,
    [backupId],
  );
}
