import { type Db, execute, many, one, type Tx } from "../../../kit/postgres/db.ts";
import { type BackupRow, SHOWN } from "../sql.ts";

/** How long an upload may be begun: its URL is valid as long. */
export const DUMP_UPLOAD_SECONDS = 3_600;
/** Until when a backup may be made of it: an upload that begins late takes its time. */
const COMPLETED = "3 hours";
/** When what is left of it is removed: no request that makes a backup of it is under way any more. */
const SWEPT = "4 hours";

type Upload = { id: string; accountId: string; serviceId: string };

export function insertUpload(tx: Tx, { id, accountId, serviceId }: Upload) {
  const text = "insert into backup_uploads (id, account_id, service_id) values ($1, $2, $3)";
  return execute(tx, "upload_insert", text, [id, accountId, serviceId]);
}

/** Returns how many uploads to an addon may still be begun. Under the service's lock. */
export async function countUploads(tx: Tx, serviceId: string): Promise<number> {
  const text = `select count(*)::int as n from backup_uploads
    where service_id = $1 and created_at > now() - make_interval(secs => ${DUMP_UPLOAD_SECONDS})`;
  return (await one<{ n: number }>(tx, "uploads_count", text, [serviceId]))!.n;
}

/** Whether a backup may be made of an upload. */
export async function isOpen(db: Db, serviceId: string, id: string): Promise<boolean> {
  const text = `select id from backup_uploads
    where service_id = $1 and id = $2 and created_at > now() - interval '${COMPLETED}'`;
  return (await one(db, "upload_open", text, [serviceId, id])) !== undefined;
}

/** How long no other request takes an upload: longer than moving the largest one takes. */
const TAKING = "5 minutes";

/** Returns 0 while another request is taking the upload. */
export function beginTaking(db: Db, id: string) {
  const text = `update backup_uploads set taken_until = now() + interval '${TAKING}'
    where id = $1 and (taken_until is null or taken_until < now())`;
  return execute(db, "upload_take", text, [id]);
}

export function endTaking(db: Db, id: string) {
  return execute(db, "upload_taken", "update backup_uploads set taken_until = null where id = $1", [id]);
}

/** Returns 0 when somebody else deleted it: of two that make a backup of it, one does. */
export function deleteUpload(db: Db, id: string) {
  return execute(db, "upload_delete", "delete from backup_uploads where id = $1", [id]);
}

type Uploaded = Upload & { type: string; requestedBy: string; object: string; sizeBytes: number };

/** Inserts the backup that an upload is. */
export async function insertUploaded(tx: Tx, uploaded: Uploaded): Promise<BackupRow> {
  const { id, accountId, serviceId, type, requestedBy, object, sizeBytes } = uploaded;
  const row = await one<BackupRow>(
    tx,
    "backup_insert_uploaded",
    `insert into backups (id, account_id, service_id, type, requested_by, trigger, status, object, size_bytes, finished_at,
       due_at)
     values ($1, $2, $3, $4, $5, 'uploaded', 'succeeded', $6, $7, now(), null) returning ${SHOWN}`,
    [id, accountId, serviceId, type, requestedBy, object, sizeBytes],
  );
  return row!;
}

/** Lists uploads of which no backup was made in time: those of a few hours. */
export function listLeftUploads(db: Db) {
  return many<Upload>(
    db,
    "uploads_left",
    `select id, account_id as "accountId", service_id as "serviceId" from backup_uploads
     where created_at < now() - interval '${SWEPT}' order by created_at`,
    [],
  );
}
