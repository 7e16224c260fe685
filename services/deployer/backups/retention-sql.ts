import { execute, type Tx } from "../../kit/postgres/db.ts";

/**
 * Marks the backups of an addon as being removed that are kept no longer: nightly ones except the newest `kept`, and those
 * that failed a month ago.
 */
export function pruneBackups(tx: Tx, serviceId: string, kept: number) {
  return execute(
    tx,
    "backups_prune",
    `update backups b set deleting_at = now(), due_at = now()
     where b.service_id = $1 and b.deleting_at is null and b.kept_until is null
       and (b.status = 'failed' and b.started_at < now() - interval '30 days'
         or b.status = 'succeeded' and b.trigger = 'nightly' and b.id not in (
           select id from backups where service_id = $1 and status = 'succeeded' and trigger = 'nightly'
             and deleting_at is null order by id desc limit $2))
       and not exists (select from restores r where r.backup_id = b.id and r.status = 'running')`,
    [serviceId, kept],
  );
}
