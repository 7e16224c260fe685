import { randomBytes } from "node:crypto";
import { AddonKeysPublishedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { wakeAwaiting } from "../due/sql.ts";
import type { Secrets } from "../secrets.ts";
import { startUsage } from "../usage/intervals.ts";
import type { AddonRef, AddonServers } from "./port.ts";
import * as sql from "./sql.ts";

export type Addons = ReturnType<typeof createAddons>;

/** Returns a new random password: URL-safe, 192 bits. */
export function newPassword(): string {
  return randomBytes(24).toString("base64url");
}

/**
 * The reconciler's actions on addons. Each can be repeated, so another process resumes where a killed one was. Each
 * returns whether something changed that has to be planned for at once.
 */
export function createAddons(deps: { pool: Pool; secrets: Secrets; servers: AddonServers; log: Logger }) {
  const { pool, secrets, servers, log } = deps;

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
    await transaction(pool, async (tx) => {
      const ready = await sql.markReady(tx, serviceId, outcome.port);
      await publish(tx, serviceId, ready);
      if (ready) await wakeAwaiting(tx, [serviceId]);
      // The usage of a server of its own is in its status.
      if (!servers.ownServer.includes(row.type)) await startUsage(tx, serviceId);
    });
    log.info({ serviceId }, "addon is ready");
    return true;
  }

  /**
   * Brings in the password that was requested. The server gets it first; one transaction then publishes it and retires
   * the old one. A process that is killed in between leaves both steps to be repeated.
   */
  async function rotate(serviceId: string): Promise<boolean> {
    const row = await sql.findAddon(pool, serviceId);
    if (!row?.next) return true;
    const { next } = row;
    const outcome = await servers.ensure(sql.toAddon(row, true), secrets.open(next, serviceId));
    if (outcome.state !== "ready") return false;
    await transaction(pool, async (tx) => {
      await publish(tx, serviceId, await sql.completeRotation(tx, serviceId, next, outcome.port));
    });
    log.info({ serviceId }, "addon has a new password");
    return true;
  }

  /** Removes it with all its data. Idempotent. */
  const remove = (addon: AddonRef) => servers.remove(addon);

  return { provision, rotate, remove };
}

async function publish(tx: Tx, serviceId: string, publication: sql.Publication | undefined): Promise<void> {
  if (!publication) return;
  const { accountId } = publication;
  const revision = BigInt(publication.revision);
  await emit(tx, AddonKeysPublishedSchema, accountId, { accountId, serviceId, revision });
}
