import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { newId } from "../../kit/ids.ts";
import type { Db, Tx } from "../../kit/postgres/db.ts";
import { conflict, invalid, notFound } from "../../kit/rpc/refusals.ts";
import type { AddonBackups } from "../addons/port.ts";
import { serviceDeleting } from "../projects/require.ts";
import { type AddonType, isDeployable } from "../terms/services.ts";
import { requireMoment } from "./point-in-time.ts";
import { backupRunning, requireRoom } from "./refusals.ts";
import { insertRestore } from "./restores-sql.ts";
import * as sql from "./sql.ts";

export type ForkSource = { service?: string; backup?: string; at?: Timestamp };
/** `at`: the moment of `from`, whose data can be had. */
type Fork = {
  accountId: string;
  serviceId: string;
  type: string;
  from: ForkSource;
  at: Date | undefined;
  requestedBy: string;
};

/** Throws 422 unless addons of this type can be forked here. */
export async function requireForkable(
  backups: Pick<AddonBackups, "unsupported">,
  type: string,
): Promise<void> {
  if (isDeployable(type)) throw invalid("from", "not_addon", `A ${type} service has no backups.`);
  const reason = await backups.unsupported(type as AddonType);
  if (reason !== undefined) throw invalid("from", "not_supported_here", reason);
}

/** Returns the moment whose data a fork is to begin with, if it names one. Throws 404 and 422. */
export async function requireForkMoment(
  db: Db,
  backups: Pick<AddonBackups, "pointInTime">,
  accountId: string,
  { service, backup, at }: ForkSource,
): Promise<Date | undefined> {
  if (at === undefined) return undefined;
  if (service === undefined)
    throw invalid("from.service", "required", "Name the service whose moment it is.");
  if (backup !== undefined)
    throw invalid("from.at", "exclusive", "A backup has its moment: name a backup or a moment, not both.");
  const source = await sql.findPlaced(db, accountId, service);
  if (!source) throw notFound("service");
  if (isDeployable(source.type))
    throw invalid("from", "not_addon", `A ${source.type} service has no backups.`);
  return requireMoment(backups, source, at, "from.at");
}

/** Returns how large the volume of the addon was asked to be whose data a fork is to have: the fork needs as much. */
export async function findForkStorage(
  db: Db,
  accountId: string,
  { service }: ForkSource,
): Promise<number | undefined> {
  if (service === undefined) return undefined;
  return (await sql.findPlaced(db, accountId, service))?.storageGib ?? undefined;
}

/** The addon whose data a new one gets, the backup that has them, and whether that is made for this. */
type Begun = { source: string; backup: string; isNew: boolean };

/**
 * Has a new addon begin with the data of another one, or of a backup: it is restored once both its server and the backup
 * are there. Throws 404, 409 and 422.
 */
export async function beginFork(tx: Tx, fork: Fork): Promise<Begun> {
  const { accountId, serviceId, type, from, at, requestedBy } = fork;
  if (from.service === undefined) return ofAnyBackup(tx, fork);
  const source = await sql.lockAddon(tx, accountId, from.service);
  if (!source) throw notFound("service");
  requireSameType("service", source.type, type);
  if (source.deleting) throw serviceDeleting();
  const backup = at ? undefined : await backupOf(tx, source.id, from.backup);
  if (backup) await insertRestore(tx, serviceId, backup);
  if (backup) return { source: source.id, backup, isNew: false };
  if (source.addonState !== "ready") throw conflict("service_not_ready", "The addon is not ready yet.");
  await requireRoom(tx, source.id);
  const made = { id: newId("bkp"), accountId, serviceId: source.id, type, requestedBy, at };
  if (!(await sql.insertBackup(tx, made))) throw backupRunning();
  await insertRestore(tx, serviceId, made.id);
  return { source: source.id, backup: made.id, isNew: true };
}

/** Has it begin with the data of a backup of whichever addon of the account, also of one that was deleted. */
async function ofAnyBackup(tx: Tx, { accountId, serviceId, type, from }: Fork): Promise<Begun> {
  if (from.backup === undefined) throw invalid("from", "required", "Name a service or a backup.");
  const backup = await sql.lockAnyBackup(tx, accountId, from.backup);
  if (!backup) throw notFound("backup");
  requireSameType("backup", backup.type, type);
  if (backup.status !== "succeeded") throw incomplete();
  await insertRestore(tx, serviceId, backup.id);
  return { source: backup.serviceId, backup: backup.id, isNew: false };
}

function requireSameType(what: string, type: string, wanted: string): void {
  if (type === wanted) return;
  throw invalid("from", "other_type", `The ${what} is of the type ${type}, and the new one is ${wanted}.`);
}

function incomplete() {
  return conflict("backup_incomplete", "Only a backup that succeeded can be restored.");
}

/** Returns the backup with this id, or the newest one. */
function backupOf(tx: Tx, serviceId: string, id: string | undefined) {
  return id === undefined ? newest(tx, serviceId) : given(tx, serviceId, id);
}

async function given(tx: Tx, serviceId: string, id: string): Promise<string> {
  const backup = await sql.findBackup(tx, serviceId, id);
  if (!backup) throw notFound("backup");
  if (backup.status !== "succeeded") throw incomplete();
  return backup.id;
}

/** Returns the newest backup, or the first one that is being made. */
async function newest(tx: Tx, serviceId: string): Promise<string | undefined> {
  return (await sql.findNewest(tx, serviceId))?.id;
}
