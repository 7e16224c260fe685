import { type Timestamp, timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { BackupService } from "../../../proto/gen/berth/deployer/v1/backups_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { conflict, invalid, notFound } from "../../kit/rpc/refusals.ts";
import type { AddonBackups } from "../addons/port.ts";
import * as kept from "../backups/kept-sql.ts";
import { requireMoment } from "../backups/point-in-time.ts";
import { backupRunning, requireRoom, restoreRunning } from "../backups/refusals.ts";
import { findRestoring, insertRestore, isBeingRestored } from "../backups/restores-sql.ts";
import * as sql from "../backups/sql.ts";
import * as uploads from "../backups/uploads/sql.ts";
import {
  MOST_UPLOAD_BYTES,
  takeUpload,
  tooLarge,
  UPLOAD_TYPE,
  uploadKey,
  uploadUnknown,
} from "../backups/uploads/uploads.ts";
import { requireLocked, requireService, serviceDeleting } from "../projects/require.ts";
import type { LockedService, ServicePath } from "../projects/services-sql.ts";
import type { ObjectStore } from "../store/port.ts";
import { type AddonType, isDeployable } from "../terms/services.ts";
import type { ToService } from "./to-service.ts";

/** For a download to begin. */
const DOWNLOAD_SECONDS = 300;
/** How many uploads an addon may have at once: each may become large. */
const MOST_UPLOADS = 5;

export type BackupDeps = {
  pool: Pool;
  cursors: Cursors;
  backups: Pick<AddonBackups, "unsupported" | "pointInTime">;
  toService: ToService;
  store: Pick<ObjectStore, "presignDownload" | "presignPut" | "stat" | "get" | "move" | "remove">;
  /** Has due backups made now. */
  wake: () => void;
};

/** Backups of addons (docs/addons.md#backups). */
export function backupService(deps: BackupDeps): ServiceImpl<typeof BackupService> {
  const { pool, cursors, toService, wake } = deps;

  /**
   * Returns the moment whose data is asked for, if one is. Throws 422 unless the service is an addon of which this
   * installation makes backups, of that moment.
   */
  async function requireSupported(path: ServicePath & { at?: Timestamp }): Promise<Date | undefined> {
    const { id: serviceId, type, addonEngine } = await requireService(pool, path);
    if (isDeployable(type)) throw invalid("service", "not_addon", `A ${type} service has no backups.`);
    const reason = await deps.backups.unsupported(type as AddonType);
    if (reason !== undefined) throw invalid("service", "not_supported_here", reason);
    const { environmentId, at } = path;
    const addon = { serviceId, type: type as AddonType, environmentId, engine: addonEngine ?? undefined };
    return at && requireMoment(deps.backups, addon, at);
  }

  async function presign(
    key: string,
    owner: string,
    addon: string,
    { id, type }: { id: string; type: string },
  ) {
    const fileName = `${addon}-${id}.${type === "postgres" ? "dump" : "rdb"}`;
    const expiresAt = timestampFromMs(Date.now() + DOWNLOAD_SECONDS * 1_000);
    const terms = { fileName, expiresInSeconds: DOWNLOAD_SECONDS, owner };
    const url = await deps.store.presignDownload(key, terms);
    return { url, expiresAt };
  }

  /** Makes the backup that an upload is. */
  async function createUploaded(path: ServicePath, upload: string, ctx: HandlerContext) {
    const { id: serviceId, type } = await requireService(pool, path);
    const taken = await takeUpload(deps, { id: serviceId, type: type as AddonType }, upload);
    return effect(pool, ctx, async (tx) => {
      const service = await requireLocked(tx, path);
      if (service.id !== serviceId) throw notFound("service");
      if (service.deleting) throw serviceDeleting();
      await requireRoom(tx, serviceId);
      if (!taken || (await uploads.deleteUpload(tx, upload)) === 0) throw uploadUnknown();
      const { accountId } = service;
      const requestedBy = who(ctx).caller.id;
      const made = { id: upload, accountId, serviceId, type, requestedBy, ...taken };
      const backup = await uploads.insertUploaded(tx, made);
      await auditBackup(tx, ctx, "backup.upload", service, backup.id);
      return backup;
    });
  }

  return {
    async createBackup(request, ctx) {
      if (request.upload !== undefined && request.at !== undefined)
        throw invalid("at", "exclusive", "An upload has its data: send upload or at, not both.");
      const at = await requireSupported(request);
      if (request.upload !== undefined) return createUploaded(request, request.upload, ctx);
      const created = await effect(pool, ctx, async (tx) => {
        const service = await requireReady(tx, request);
        if (await findRestoring(tx, service.id)) throw restoreRunning();
        await requireRoom(tx, service.id);
        const { id: serviceId, accountId, type } = service;
        const requestedBy = who(ctx).caller.id;
        const made = { id: newId("bkp"), accountId, serviceId, type, requestedBy, at };
        const backup = await sql.insertBackup(tx, made);
        if (!backup) throw backupRunning();
        await auditBackup(tx, ctx, "backup.create", service, backup.id, auditAt(at));
        return backup;
      });
      wake();
      return created;
    },

    async createBackupUpload(request, ctx) {
      await requireSupported(request);
      const { sizeBytes = 0 } = request;
      if (sizeBytes < 0) throw invalid("sizeBytes", "out_of_range", "sizeBytes must be 0 or more.");
      if (sizeBytes > MOST_UPLOAD_BYTES) throw invalid("sizeBytes", "upload_too_large", tooLarge);
      const { id: serviceId } = await requireService(pool, request);
      const id = newId("bkp");
      const target = await deps.store.presignPut(uploadKey(serviceId, id), {
        contentType: UPLOAD_TYPE,
        maxBytes: MOST_UPLOAD_BYTES,
        expiresInSeconds: uploads.DUMP_UPLOAD_SECONDS,
        owner: request.accountId,
      });
      return effect(pool, ctx, async (tx) => {
        const service = await requireLocked(tx, request);
        if (service.id !== serviceId) throw notFound("service");
        if (service.deleting) throw serviceDeleting();
        await requireRoom(tx, serviceId);
        if ((await uploads.countUploads(tx, serviceId)) >= MOST_UPLOADS)
          throw conflict(
            "too_many_uploads",
            `An addon has at most ${MOST_UPLOADS} uploads at once. Make a backup of one, or wait until an hour is over.`,
          );
        await uploads.insertUpload(tx, { id, accountId: request.accountId, serviceId });
        const { url: uploadUrl, method, contentType } = target;
        const expiresInSeconds = uploads.DUMP_UPLOAD_SECONDS;
        return { uploadUrl, upload: id, method, contentType, expiresInSeconds, maxBytes: MOST_UPLOAD_BYTES };
      });
    },

    async listBackups(request) {
      const { id } = await requireService(pool, request);
      return cursors.page(`backups ${id}`, request, ({ before, limit }) =>
        sql.listBackups(pool, id, before, limit),
      );
    },

    async getBackup(request) {
      const { id } = await requireService(pool, request);
      return (await sql.findBackup(pool, id, request.backupId)) ?? throwNotFound();
    },

    async downloadBackup(request, ctx) {
      return transaction(pool, async (tx) => {
        const service = await requireLocked(tx, request);
        const backup = (await sql.findBackup(tx, service.id, request.backupId)) ?? throwNotFound();
        const key = await sql.findKey(tx, backup.id);
        if (key === undefined)
          throw conflict("backup_incomplete", "Only a backup that succeeded can be downloaded.");
        await auditBackup(tx, ctx, "backup.download", service, backup.id);
        return presign(key, service.accountId, service.name, { id: backup.id, type: service.type });
      });
    },

    async deleteBackup(request, ctx) {
      await transaction(pool, async (tx) => {
        const service = await requireLocked(tx, request);
        const backup = (await sql.findBackup(tx, service.id, request.backupId)) ?? throwNotFound();
        // A restore into another addon does not hold this one's lock.
        await sql.lockAnyBackup(tx, service.accountId, backup.id);
        if (await isBeingRestored(tx, backup.id)) throw restoreRunning();
        if ((await sql.markDeleting(tx, backup.id)) === 0) throw backupRunning();
        await auditBackup(tx, ctx, "backup.delete", service, backup.id);
      });
      wake();
      return {};
    },

    async restoreBackup(request, ctx) {
      if ((request.backup === undefined) === (request.at === undefined))
        throw invalid("backup", "exclusive", "Send either backup or at.");
      const at = await requireSupported(request);
      const restoring = await effect(pool, ctx, async (tx) => {
        const service = await requireReady(tx, request);
        const backup = request.backup && (await requireRestorable(tx, service, request.backup));
        if (await sql.isBackingUp(tx, service.id)) throw backupRunning();
        if (!request.confirmImpact) throw confirmationRequired(service, backup || { at });
        const id = backup ? backup.id : await beginBackupOf(tx, ctx, service, at);
        if (!(await insertRestore(tx, service.id, id))) throw restoreRunning();
        const from = !backup || backup.serviceId === service.id ? {} : { from: backup.serviceId };
        await auditBackup(tx, ctx, "backup.restore", service, id, { ...from, ...auditAt(at) });
        return toService(await requireService(tx, request));
      });
      wake();
      return restoring;
    },

    async listKeptBackups(request) {
      const { accountId } = request;
      return cursors.page(`kept-backups ${accountId}`, request, ({ before, limit }) =>
        kept.listKept(pool, accountId, before, limit),
      );
    },

    async getKeptBackup({ accountId, backupId }) {
      return (await kept.findKept(pool, accountId, backupId)) ?? throwNotFound();
    },

    async downloadKeptBackup({ accountId, backupId }, ctx) {
      return transaction(pool, async (tx) => {
        const backup = (await kept.findKept(tx, accountId, backupId)) ?? throwNotFound();
        const key = (await sql.findKey(tx, backup.id)) ?? throwNotFound();
        await auditBackup(tx, ctx, "backup.download", deletedAddon(accountId, backup), backup.id);
        return presign(key, accountId, backup.serviceName, backup);
      });
    },

    async deleteKeptBackup({ accountId, backupId }, ctx) {
      await transaction(pool, async (tx) => {
        const backup = (await kept.lockKept(tx, accountId, backupId)) ?? throwNotFound();
        if (await isBeingRestored(tx, backup.id)) throw restoreRunning();
        await sql.markDeleting(tx, backup.id);
        await auditBackup(tx, ctx, "backup.delete", deletedAddon(accountId, backup), backup.id);
      });
      wake();
      return {};
    },
  };
}

const deletedAddon = (accountId: string, { serviceId: id, serviceName: name }: kept.KeptRow) => ({
  accountId,
  id,
  name,
});

/** Returns an addon, locked, whose server was made. Throws 404 and 409. */
async function requireReady(tx: Tx, path: ServicePath): Promise<LockedService> {
  const service = await requireLocked(tx, path);
  if (service.deleting) throw serviceDeleting();
  const { addonState } = await requireService(tx, path);
  if (addonState !== "ready") throw conflict("service_not_ready", "The addon is not ready yet.");
  return service;
}

/** Returns a backup from which an addon can be restored, locked. Throws 404, 409 and 422. */
async function requireRestorable(tx: Tx, service: LockedService, id: string): Promise<sql.BackupRow> {
  const backup = (await sql.lockAnyBackup(tx, service.accountId, id)) ?? throwNotFound();
  if (backup.type !== service.type)
    throw invalid(
      "backup",
      "other_type",
      `The backup is of a ${backup.type} addon, and this is a ${service.type} addon.`,
    );
  if (backup.status === "succeeded") return backup;
  throw conflict("backup_incomplete", "Only a backup that succeeded can be restored.");
}

/** Begins a backup of a moment from which the addon is restored, and returns its id. */
async function beginBackupOf(tx: Tx, ctx: HandlerContext, service: LockedService, at: Date | undefined) {
  const { id: serviceId, accountId, type } = service;
  await requireRoom(tx, serviceId);
  const made = { id: newId("bkp"), accountId, serviceId, type, requestedBy: who(ctx).caller.id, at };
  if (!(await sql.insertBackup(tx, made))) throw backupRunning();
  await auditBackup(tx, ctx, "backup.create", service, made.id, auditAt(at));
  return made.id;
}

const auditAt = (at: Date | undefined) => (at ? { at: at.toISOString() } : {});

/** `at`: the moment whose data it gets. */
function confirmationRequired(
  { id, name, environmentId }: LockedService,
  from: Pick<sql.BackupRow, "serviceId" | "startedAt" | "at"> | { at: Date | undefined },
) {
  const isOwn = !("serviceId" in from) || from.serviceId === id;
  const [whose, since] = isOwn ? ["", " since then"] : [" of another addon", ""];
  const at = "serviceId" in from ? timestampDate(from.at ?? from.startedAt) : from.at;
  const message = `This replaces all data of ${name} by that${whose} of ${at?.toISOString()}; what was written${since} is lost. Send confirmImpact: true to confirm.`;
  const impact = { services: [{ id, name, environmentId }], total: 1 };
  return conflict("impact_confirmation_required", message, { impact });
}

function throwNotFound(): never {
  throw notFound("backup");
}

function auditBackup(
  tx: Tx,
  ctx: HandlerContext,
  action: string,
  service: Pick<LockedService, "accountId" | "name" | "id">,
  target: string,
  more: { from?: string; at?: string } = {},
) {
  const { accountId, name, id: serviceId } = service;
  const metadata = { service: name, serviceId, ...more };
  return audit(tx, who(ctx), { service: "deployer", accountId, action, target, metadata });
}
