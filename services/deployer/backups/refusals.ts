import type { Tx } from "../../kit/postgres/db.ts";
import { conflict } from "../../kit/rpc/refusals.ts";
import { countManual } from "./sql.ts";

/** How many backups on request an addon has at most, uploads included. */
const MOST_MANUAL = 20;

/** Throws 409 unless the addon may have one more backup on request. */
export async function requireRoom(tx: Tx, serviceId: string): Promise<void> {
  if ((await countManual(tx, serviceId)) < MOST_MANUAL) return;
  const message = `An addon has at most ${MOST_MANUAL} backups that were asked for or uploaded. Delete one first.`;
  throw conflict("too_many_backups", message);
}

/** For whoever finds that the addon has one already (`insertBackup`). */
export function backupRunning() {
  return conflict("backup_running", "A backup of the addon is being made. Wait until it has ended.");
}

export function restoreRunning() {
  return conflict("restore_running", "The addon is being restored. Wait until that has ended.");
}
