import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one, type Tx } from "../../kit/postgres/db.ts";
import { isBelow } from "../../kit/postgres/paging.ts";
import type { AddonType } from "../terms/services.ts";

// Backups of deleted addons (docs/addons.md#deleted-addons). `keepNewestBackups` keeps them.

export type KeptRow = {
  id: string;
  serviceId: string;
  serviceName: string;
  environmentName: string;
  projectName: string;
  type: AddonType;
  trigger: string;
  startedAt: Timestamp;
  sizeBytes: number;
  version?: string;
  provedAt?: Timestamp;
  at?: Timestamp;
  keptUntil: Timestamp;
};

const SHOWN = `id, service_id as "serviceId", service_name as "serviceName", environment_name as "environmentName",
  project_name as "projectName", type, trigger, started_at as "startedAt", size_bytes as "sizeBytes", version, as_of as "at",
  (select max(p.finished_at) from proofs p where p.backup_id = backups.id and p.status = 'succeeded') as "provedAt",
  kept_until as "keptUntil"`;
/** SQL of those that are there for users. */
const KEPT = "account_id = $1 and kept_until > now() and deleting_at is null";

/** Lists them, newest first. */
export function listKept(db: Db, accountId: string, before: string | undefined, limit: number) {
  const text = `select ${SHOWN} from backups where ${KEPT} and ${isBelow("id", "$2")} order by id desc limit $3`;
  return many<KeptRow>(db, "kept_list", text, [accountId, before, limit]);
}

export function findKept(db: Db, accountId: string, id: string) {
  return one<KeptRow>(db, "kept_find", `select ${SHOWN} from backups where ${KEPT} and id = $2`, [
    accountId,
    id,
  ]);
}

/** The same, and a restore of it does not begin before the transaction ends. */
export function lockKept(tx: Tx, accountId: string, id: string) {
  const text = `select ${SHOWN} from backups where ${KEPT} and id = $2 for no key update`;
  return one<KeptRow>(tx, "kept_lock", text, [accountId, id]);
}

/** Marks all of an account as being removed. */
export function deleteKeptBackups(tx: Tx, accountId: string) {
  return execute(
    tx,
    "kept_delete_all",
    `update backups set deleting_at = now(), due_at = now()
     where account_id = $1 and kept_until is not null and deleting_at is null`,
    [accountId],
  );
}

/** SQL that is true while an addon is being restored from a backup `b`. */
const BEING_RESTORED = "exists (select from restores r where r.backup_id = b.id and r.status = 'running')";

/** Marks those as being removed whose time is over, unless they are being restored. Returns how many it were. */
export async function expireKept(tx: Tx, limit: number): Promise<number> {
  const over = await many<{ id: string }>(
    tx,
    "kept_over",
    `select b.id from backups b where b.kept_until <= now() and b.deleting_at is null and not ${BEING_RESTORED}
     order by b.kept_until limit $1 for no key update skip locked`,
    [limit],
  );
  // Asked again: a restore may have begun before the lock.
  return execute(
    tx,
    "kept_expire",
    `update backups b set deleting_at = now(), due_at = now() where b.id = any($1) and not ${BEING_RESTORED}`,
    [over.map(({ id }) => id)],
  );
}
