import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one, type Tx } from "../../kit/postgres/db.ts";
import { isBelow } from "../../kit/postgres/paging.ts";
import type { PlacedAddon } from "../addons/port.ts";
import { epochMs } from "../shared/epoch-ms.ts";
import type { AddonType } from "../terms/services.ts";
import { type Lease, RESTORE_OF_OTHERS, RESTORE_POSSIBLE, type Taken } from "./restores-sql.ts";

export type BackupRow = {
  id: string;
  serviceId: string;
  status: "running" | "succeeded" | "failed";
  trigger: "manual" | "nightly" | "uploaded";
  startedAt: Timestamp;
  finishedAt?: Timestamp;
  sizeBytes?: number;
  version?: string;
  failure?: string;
  requestedBy?: string;
  provedAt?: Timestamp;
  proofFailure?: string;
  at?: Timestamp;
};

export const SHOWN = `id, service_id as "serviceId", status, trigger, started_at as "startedAt", finished_at as "finishedAt",
  size_bytes as "sizeBytes", version, failure, requested_by as "requestedBy", as_of as "at",
  (select max(p.finished_at) from proofs p where p.backup_id = backups.id and p.status = 'succeeded') as "provedAt",
  (select p.failure from proofs p where p.backup_id = backups.id and p.status <> 'running' order by night desc limit 1)
    as "proofFailure"`;

/** `at`: the moment whose data it is to have, in place of that when it is made. */
type NewBackup = {
  id: string;
  accountId: string;
  serviceId: string;
  type: string;
  requestedBy: string;
  at?: Date;
};

/** Inserts a backup, which is due at once. Undefined while another one of the addon is running. */
export function insertBackup(tx: Tx, backup: NewBackup) {
  return one<BackupRow>(
    tx,
    "backup_insert",
    `insert into backups (id, account_id, service_id, type, requested_by, as_of, trigger)
     values ($1, $2, $3, $4, $5, $6, 'manual') on conflict do nothing returning ${SHOWN}`,
    [backup.id, backup.accountId, backup.serviceId, backup.type, backup.requestedBy, backup.at ?? null],
  );
}

/** Returns how many backups of an addon were made or are being made on request, or were uploaded. */
export async function countManual(tx: Tx, serviceId: string): Promise<number> {
  const text = `select count(*)::int as n from backups
    where service_id = $1 and trigger <> 'nightly' and status <> 'failed' and deleting_at is null`;
  return (await one<{ n: number }>(tx, "backups_count", text, [serviceId]))!.n;
}

/** Lists the backups of an addon, newest first. */
export function listBackups(db: Db, serviceId: string, before: string | undefined, limit: number) {
  return many<BackupRow>(
    db,
    "backups_list",
    `select ${SHOWN} from backups where service_id = $1 and deleting_at is null and ${isBelow("id", "$2")}
     order by id desc limit $3`,
    [serviceId, before, limit],
  );
}

export function findBackup(db: Db, serviceId: string, id: string) {
  const text = `select ${SHOWN} from backups where service_id = $1 and id = $2 and deleting_at is null`;
  return one<BackupRow>(db, "backup_find", text, [serviceId, id]);
}

/**
 * Returns a backup of whichever addon of the account, also of a deleted one. Locked: whoever removes it sees the restore that
 * begins.
 */
export function lockAnyBackup(tx: Tx, accountId: string, id: string) {
  return one<BackupRow & { type: AddonType }>(
    tx,
    "backup_lock_any",
    `select ${SHOWN}, type from backups where account_id = $1 and id = $2 and deleting_at is null
       and (kept_until is null or kept_until > now()) for no key update`,
    [accountId, id],
  );
}

/** Returns a service of the account by its id, locked until the transaction ends. */
export function lockAddon(tx: Tx, accountId: string, id: string) {
  return one<{ id: string; type: string; addonState: string | null; deleting: boolean }>(
    tx,
    "fork_source",
    `select id, type, addon_state as "addonState", deleting_at is not null as deleting from services
     where account_id = $1 and id = $2 for no key update`,
    [accountId, id],
  );
}

/** Returns a service of the account by its id, as the adapters of addons know it. */
export function findPlaced(db: Db, accountId: string, id: string) {
  return one<PlacedAddon & { storageGib: number | null }>(
    db,
    "fork_placed",
    `select id as "serviceId", type, addon_engine as engine, environment_id as "environmentId",
       (config -> 'storageGib')::int as "storageGib" from services
     where account_id = $1 and id = $2`,
    [accountId, id],
  );
}

/** Returns the newest backup that was made of an addon; while there is none, the one that is being made. */
export function findNewest(tx: Tx, serviceId: string) {
  return one<{ id: string }>(
    tx,
    "backup_newest",
    `select id from backups where service_id = $1 and status in ('succeeded', 'running') and trigger <> 'uploaded'
       and as_of is null and deleting_at is null order by status = 'succeeded' desc, id desc limit 1`,
    [serviceId],
  );
}

/** Marks a backup as being removed. Under its lock, which whoever begins a restore takes too. */
export function markDeleting(tx: Tx, id: string) {
  return execute(
    tx,
    "backup_delete",
    `update backups set deleting_at = now(), due_at = now()
     where id = $1 and status <> 'running' and deleting_at is null`,
    [id],
  );
}

/** Whether a backup of the addon is being made. */
export async function isBackingUp(tx: Tx, serviceId: string): Promise<boolean> {
  const text = "select id from backups where service_id = $1 and status = 'running' and deleting_at is null";
  return (await one(tx, "backup_running", text, [serviceId])) !== undefined;
}

/** In which seconds after midnight UTC nightly backups begin; which one of an addon follows from its id. */
const NIGHT_SECONDS = 5 * 3_600;

/**
 * Lists addons of these types whose backup of the last night was not begun: each has its time, and one that was missed is
 * begun late. One that was made within the hour before has nothing yet that a backup is for.
 */
export function listNightly(db: Db, types: AddonType[], limit: number) {
  return many<{ serviceId: string; night: string }>(
    db,
    "backups_nightly",
    `select s.id as "serviceId", (n.begins at time zone 'UTC')::date::text as night
     from services s, lateral (
       select case when at > now() then at - interval '1 day' else at end as begins from (
         select date_trunc('day', now(), 'UTC')
           + make_interval(secs => ('x' || substr(md5(s.id), 1, 7))::bit(28)::int % ${NIGHT_SECONDS}) as at) today) n
     where s.type = any($1) and s.addon_state = 'ready' and s.deleting_at is null and s.created_at < n.begins - interval '1 hour'
       and not exists (select from backups b where b.service_id = s.id
         and (b.status = 'running' or b.night >= (n.begins at time zone 'UTC')::date))
       and not exists (select from restores r where r.service_id = s.id and r.status = 'running')
     order by n.begins limit $2`,
    [types, limit],
  );
}

/** Begins nightly backups. Of two processes that do, one does. Returns how many it were. */
export function insertNightly(db: Db, backups: { id: string; serviceId: string; night: string }[]) {
  return execute(
    db,
    "backups_begin",
    `insert into backups (id, account_id, service_id, type, trigger, night)
     select n.id, s.account_id, s.id, s.type, 'nightly', n.night
     from unnest($1::text[], $2::text[], $3::date[]) as n (id, service_id, night)
     join services s on s.id = n.service_id and s.deleting_at is null on conflict do nothing`,
    [backups.map(({ id }) => id), backups.map((one) => one.serviceId), backups.map(({ night }) => night)],
  );
}

export type TakenBackup = Taken & {
  id: string;
  accountId: string;
  type: AddonType;
  /** The moment whose data it is to have, in ms. */
  atMs: number | null;
  deleting: boolean;
};

/** Takes a backup that is due: to be made, or to be removed. It is due again when the lease ends. */
export function takeBackup(db: Db, { leaseSeconds, busy }: Lease) {
  return one<TakenBackup>(
    db,
    "backup_take",
    `with due as (
       select id from backups where due_at <= now() and account_id <> all($1::text[])
       order by due_at limit 1 for update skip locked)
     update backups b set due_at = now() + make_interval(secs => $2), turn = turn + 1
     from due where b.id = due.id
     returning b.id, b.account_id as "accountId", b.service_id as "serviceId", b.type, b.attempts, b.turn,
       ${epochMs("b.as_of")} as "atMs", b.deleting_at is not null as deleting`,
    [busy, leaseSeconds],
  );
}

/**
 * Returns in how many ms the next backup or restore is due, less than 0 when it was before; undefined when none is.
 * Those of `busy` accounts do not count.
 */
export async function msUntilDue(db: Db, busy: string[]): Promise<number | undefined> {
  const text = `select ${epochMs("due.at")} - ${epochMs("now()")} as "inMs" from (select least(
      (select min(due_at) from backups where account_id <> all($1::text[])),
      (select min(due_at) from restores r where ${RESTORE_POSSIBLE} and ${RESTORE_OF_OTHERS})) as at) due`;
  return (await one<{ inMs: number | null }>(db, "backups_next", text, [busy]))?.inMs ?? undefined;
}

/** Prolongs the lease of a backup that is being made. Returns 0 when it is to be removed, or was taken again. */
export function renewBackup(db: Db, { id, turn }: TakenBackup, leaseSeconds: number) {
  return execute(
    db,
    "backup_renew",
    `update backups set due_at = now() + make_interval(secs => $3)
     where id = $1 and turn = $2 and status = 'running' and deleting_at is null`,
    [id, turn, leaseSeconds],
  );
}

export type Ending = {
  status: "succeeded" | "failed";
  sizeBytes?: number;
  object?: string;
  version?: string;
  failure?: string;
};

/** Records how a backup ended. Returns 0 when it is to be removed, or was taken again. */
export function endBackup(tx: Tx, { id, turn }: TakenBackup, ending: Ending) {
  const { status, sizeBytes = null, object = null, version = null, failure = null } = ending;
  return execute(
    tx,
    "backup_end",
    `update backups set status = $3, size_bytes = $4, object = $5, version = $6, failure = $7, finished_at = now(),
       due_at = null
     where id = $1 and turn = $2 and status = 'running' and deleting_at is null`,
    [id, turn, status, sizeBytes, object, version, failure],
  );
}

/** Has a backup taken again, in a while, after an attempt that failed or was `interrupted`. */
export function postponeBackup(db: Db, { id, turn }: TakenBackup, seconds: number, interrupted = false) {
  return execute(
    db,
    "backup_postpone",
    `update backups set due_at = now() + make_interval(secs => $3), attempts = attempts + $4
     where id = $1 and turn = $2 and due_at is not null`,
    [id, turn, seconds, interrupted ? 0 : 1],
  );
}

/** Deletes a backup whose object is removed. */
export function removeBackup(db: Db, { id, turn }: TakenBackup) {
  return execute(
    db,
    "backup_remove",
    "delete from backups where id = $1 and turn = $2 and deleting_at is not null",
    [id, turn],
  );
}

/** Returns the key of a backup's object; undefined when it did not succeed, or is being removed. */
export async function findKey(db: Db, backupId: string): Promise<string | undefined> {
  const text =
    "select object as key from backups where id = $1 and status = 'succeeded' and deleting_at is null";
  return (await one<{ key: string }>(db, "backup_key", text, [backupId]))?.key;
}
