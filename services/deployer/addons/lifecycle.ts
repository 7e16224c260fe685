import { randomBytes } from "node:crypto";
import { AddonKeysPublishedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { wakeAwaiting } from "../due/sql.ts";
import type { Secrets } from "../secrets.ts";
import { startUsage } from "../usage/intervals.ts";
import { createPoolerPauses } from "./pooler-pauses.ts";
import type { Addon, AddonRef, AddonServers } from "./port.ts";
import * as sql from "./sql.ts";

/** For services to take the keys that lead past it, also one after the other. */
const POOLER_STAYS_SECONDS = 600;

export type Addons = ReturnType<typeof createAddons>;

/** Returns a new random password: URL-safe, 192 bits. */
export function newPassword(): string {
  return randomBytes(24).toString("base64url");
}

/**
 * The reconciler's actions on addons. Each can be repeated, so another process resumes where a killed one was. Each
 * returns whether something changed that has to be planned for at once.
 */
export function createAddons(deps: {
  pool: Pool;
  secrets: Secrets;
  servers: AddonServers;
  /** Called when an addon has become ready: what it is to be filled with may have waited for that. */
  onReady?: () => void;
  log: Logger;
}) {
  const { pool, secrets, servers, onReady, log } = deps;
  /** Addons whose pooler fails, of which the log says so once. */
  const failing = new Set<string>();
  const pauses = createPoolerPauses();

  /** Makes the addon and publishes its keys, or brings back the server of one that is ready. */
  async function provision(serviceId: string): Promise<boolean> {
    const offered = secrets.seal(newPassword(), serviceId);
    // Stored before the server knows it, so that no server has a password that was lost.
    const row = await sql.ensureSecret(pool, serviceId, offered, await servers.postgresEngine());
    if (!row) return true;
    const password = secrets.open(row.secret, serviceId);
    const outcome = await servers.ensure(sql.toAddon(row, false), password).catch(async (error) => {
      const message = `The server for ${row.type} addons cannot be used; Berth is trying again.`;
      await sql.markWaiting(pool, serviceId, message);
      throw error;
    });
    // The adapter's watch reports progress.
    if (outcome.state === "waiting") await sql.markWaiting(pool, serviceId, outcome.message);
    if (outcome.state === "failed")
      await transaction(pool, async (tx) => {
        if ((await sql.markFailed(tx, serviceId, outcome.message)) > 0) await wakeAwaiting(tx, [serviceId]);
      });
    if (outcome.state !== "ready") return false;
    const isNew = await transaction(pool, async (tx) => {
      const ready = await sql.markReady(tx, serviceId, outcome.port);
      await publish(tx, serviceId, ready);
      if (ready) await wakeAwaiting(tx, [serviceId]);
      // The usage of a server of its own is in its status.
      if (!servers.ownServer.includes(row.type)) await startUsage(tx, serviceId);
      return ready !== undefined;
    });
    if (isNew) {
      log.info({ serviceId }, "addon is ready");
      onReady?.();
    }
    // It may have gone with the server.
    if (isPooled(row)) await servers.poolers?.ensure(sql.toAddon(row, false), password);
    // Of one that was ready, the adapter's watch reports what has become of it.
    return isNew;
  }

  /**
   * Brings in the password that was requested. The server gets it first; one transaction then publishes it and retires
   * the old one. A process that is killed in between leaves both steps to be repeated.
   */
  async function rotate(serviceId: string): Promise<boolean> {
    const row = await sql.findAddon(pool, serviceId);
    if (!row?.next) return true;
    const { next } = row;
    const [addon, password] = [sql.toAddon(row, true), secrets.open(next, serviceId)];
    const outcome = await servers.ensure(addon, password);
    if (outcome.state !== "ready") return false;
    const pooler = await rotatePooler(row, addon, password);
    if (pooler === "waiting") return false;
    await transaction(pool, async (tx) => {
      const pooled = pooler === "ready";
      await publish(tx, serviceId, await sql.completeRotation(tx, serviceId, next, outcome.port, pooled));
    });
    log.info({ serviceId }, "addon has a new password");
    return true;
  }

  /**
   * Has a pooler accept the next password and no other. One that does not start is removed: a pod of before would still accept
   * the old one. So is one through which no keys lead.
   */
  async function rotatePooler(row: sql.AddonRow, addon: Addon, password: string) {
    const { poolers } = servers;
    if (!poolers || row.poolerRevision == null) return "none";
    const outcome = isPooled(row) ? await poolers.ensure(addon, password) : undefined;
    if (outcome && outcome.state !== "failed") return outcome.state;
    if (outcome)
      log.warn({ serviceId: addon.serviceId, reason: outcome.message }, "the keys lead past the pooler");
    await poolers.remove(addon);
    return "none";
  }

  /** Makes the pooler of an addon, and has the keys lead through it once it serves. */
  async function ensurePooler(serviceId: string): Promise<boolean> {
    const row = await sql.beginPooler(pool, serviceId);
    if (!row) return true;
    const outcome = await servers.poolers?.ensure(
      sql.toAddon(row, false),
      secrets.open(row.secret, serviceId),
    );
    if (outcome?.state === "failed" && !failing.has(serviceId))
      log.warn({ serviceId, reason: outcome.message }, "an addon has no pooler; retrying");
    if (outcome?.state === "failed") failing.add(serviceId);
    else failing.delete(serviceId);
    if (outcome?.state !== "ready") {
      pauses.waits(serviceId);
      return false;
    }
    pauses.ends(serviceId);
    await transaction(pool, async (tx) => {
      await publish(tx, serviceId, await sql.publishPooler(tx, serviceId, row.revision));
    });
    log.info({ serviceId }, "addon has a pooler");
    return true;
  }

  /** Has the keys lead past the pooler, which is removed later. */
  async function withdrawPooler(serviceId: string): Promise<boolean> {
    await transaction(pool, async (tx) => {
      await publish(tx, serviceId, await sql.withdrawPooler(tx, serviceId, POOLER_STAYS_SECONDS));
    });
    return true;
  }

  /** Removes a pooler through which no keys lead. */
  async function removePooler(serviceId: string): Promise<boolean> {
    const row = await sql.findAddon(pool, serviceId);
    if (row) await servers.poolers?.remove(sql.toAddon(row, false));
    await sql.forgetPooler(pool, serviceId);
    pauses.ends(serviceId);
    return true;
  }

  /** Removes it with all its data. Idempotent. */
  async function remove(addon: AddonRef): Promise<void> {
    await servers.remove(addon);
    pauses.ends(addon.serviceId);
  }

  return {
    ...{ provision, rotate, ensurePooler, withdrawPooler, removePooler, remove },
    poolerPauseMs: pauses.msOf,
  };
}

/** Whether the published keys lead through a pooler. */
const isPooled = ({ revision, poolerRevision }: sql.AddonRow) => revision === poolerRevision;

async function publish(tx: Tx, serviceId: string, publication: sql.Publication | undefined): Promise<void> {
  if (!publication) return;
  const { accountId } = publication;
  const revision = BigInt(publication.revision);
  await emit(tx, AddonKeysPublishedSchema, accountId, { accountId, serviceId, revision });
}
