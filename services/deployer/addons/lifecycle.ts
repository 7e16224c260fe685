import { randomBytes } from "node:crypto";
import { AddonKeysPublishedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { wakeAwaiting } from "../deployments/transitions-sql.ts";
import type { Secrets } from "../secrets.ts";
import { startUsage } from "../usage/intervals.ts";
import type { AddonRef, AddonServers } from "./port.ts";
import * as sql from "./sql.ts";

export type Addons = ReturnType<typeof createAddons>;

/** A new password: URL-safe, 192 bits. */
export function newPassword(): string {
  return randomBytes(24).toString("base64url");
}

/**
 * What the reconciler does about addons. Every step can be repeated, so a killed process goes on where it
 * stood. Steps give whether something moved that has to be planned for at once.
 */
export function createAddons(deps: { pool: Pool; secrets: Secrets; servers: AddonServers; log: Logger }) {
  const { pool, secrets, servers, log } = deps;

  /** Makes the addon and publishes its keys, or brings back the server of one that is ready. */
  async function provision(serviceId: string): Promise<boolean> {
    const offered = secrets.seal(newPassword(), serviceId);
    // The password is kept before the server knows it: it never has one that we have lost.
    const kept = await sql.keepSecret(pool, serviceId, offered);
    if (!kept) return true;
    const password = secrets.open(kept.secret, serviceId);
    const outcome = await servers.ensure(sql.addonOf(kept, false), password).catch(async (error) => {
      const message = `The server for ${kept.type} addons cannot be used; it is tried again.`;
      await sql.addonWaiting(pool, serviceId, message);
      throw error;
    });
    // The watch tells when it goes on.
    if (outcome.state === "waiting") await sql.addonWaiting(pool, serviceId, outcome.message);
    if (outcome.state === "failed")
      await transaction(pool, async (tx) => {
        if ((await sql.addonFailed(tx, serviceId, outcome.message)) > 0) await wakeAwaiting(tx, serviceId);
      });
    if (outcome.state !== "ready") return false;
    await transaction(pool, async (tx) => {
      const ready = await sql.addonReady(tx, serviceId, outcome.port);
      await publish(tx, serviceId, ready);
      if (ready) await wakeAwaiting(tx, serviceId);
      // Of a server of its own the changes that are watched tell.
      if (!servers.ownServer.includes(kept.type)) await startUsage(tx, serviceId);
    });
    log.info({ serviceId }, "addon is ready");
    return true;
  }

  /**
   * Brings in the password that was asked for. The server knows it first; it is published with the old one's
   * end in one transaction, and all is done again when a process is killed between.
   */
  async function rotate(serviceId: string): Promise<boolean> {
    const facts = await sql.addonFacts(pool, serviceId);
    if (!facts?.next) return true;
    const { next } = facts;
    const outcome = await servers.ensure(sql.addonOf(facts, true), secrets.open(next, serviceId));
    if (outcome.state !== "ready") return false;
    await transaction(pool, async (tx) => {
      await publish(tx, serviceId, await sql.addonRotated(tx, serviceId, next, outcome.port));
    });
    log.info({ serviceId }, "addon has a new password");
    return true;
  }

  /** Removes it with everything in it. Idempotent. */
  const drop = (addon: AddonRef) => servers.remove(addon);

  return { provision, rotate, drop };
}

async function publish(
  tx: Tx,
  serviceId: string,
  published: { accountId: string; revision: number } | undefined,
): Promise<void> {
  if (!published) return;
  const { accountId } = published;
  const revision = BigInt(published.revision);
  await emit(tx, AddonKeysPublishedSchema, accountId, { accountId, serviceId, revision });
}
