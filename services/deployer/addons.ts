import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import pg from "pg";
import { AddonKeysPublishedSchema } from "../../proto/gen/berth/deployer/v1/events_pb.ts";
import { type Pool, type Tx, transaction } from "../kit/db.ts";
import type { Logger } from "../kit/log.ts";
import { emit } from "../kit/outbox.ts";
import { addonName } from "./addon-keys.ts";
import type { RedisServers } from "./redis-servers.ts";
import type { Secrets } from "./secrets.ts";
import * as sql from "./sql-addons.ts";
import { startUsage } from "./usage.ts";

export type Addons = ReturnType<typeof createAddons>;

/** Connections that one addon's apps may hold together. */
const CONNECTIONS = 20;
const DUPLICATE = new Set(["42710", "42P04", "23505"]);

/** A new password: URL-safe, 192 bits. */
export function newPassword(): string {
  return randomBytes(24).toString("base64url");
}

/**
 * Addons of type postgres: a role and a database of their own in one server. Addons of type redis: a server
 * of their own. Every step can be repeated, so a killed process goes on where it stood.
 */
export function createAddons(deps: {
  pool: Pool;
  secrets: Secrets;
  adminUrl: string;
  redis: RedisServers;
  log: Logger;
}) {
  const { pool, secrets, adminUrl, redis, log } = deps;

  /** Brings what the addon lives in to this password; gives its port when it has one of its own. */
  async function bring(serviceId: string, addon: sql.AddonFacts, password: string) {
    if (addon.type !== "redis") {
      await asAdmin(adminUrl, (admin) => make(admin, serviceId, password));
      return undefined;
    }
    const { size, port } = addon;
    return redis.ensure(serviceId, requireRedis(redis), { password, size, port: port ?? undefined });
  }

  /** Makes the addon and publishes its keys, or brings back the server of one that is ready. */
  async function provision(serviceId: string): Promise<void> {
    const offered = secrets.seal(newPassword(), serviceId);
    // The password is kept before the server knows it: it never has one that we have lost.
    const kept = await sql.keepSecret(pool, serviceId, offered);
    if (!kept) return;
    // One that has run before waits for the program to come back.
    const missing = kept.type === "redis" && !redis.program();
    if (missing && (await sql.addonFailed(pool, serviceId, NO_REDIS)) > 0) return;
    const port = await bring(serviceId, kept, secrets.open(kept.secret, serviceId)).catch(async (error) => {
      await sql.addonWaiting(
        pool,
        serviceId,
        `The server for ${kept.type} addons cannot be used; it is tried again.`,
      );
      throw error;
    });
    await transaction(pool, async (tx) => {
      await publish(tx, serviceId, await sql.addonReady(tx, serviceId, port));
      // Of a server of our own the runtime's changes tell.
      if (kept.type !== "redis") await startUsage(tx, serviceId);
    });
    log.info({ serviceId }, "addon is ready");
  }

  /**
   * Brings in the password that was asked for. The server knows it first; it is published with the old one's
   * end in one transaction, and all is done again when a process is killed between.
   */
  async function rotate(serviceId: string): Promise<void> {
    const addon = await sql.addonFacts(pool, serviceId);
    const next = addon?.next;
    if (!next) return;
    const port = await bring(serviceId, addon, secrets.open(next, serviceId));
    await transaction(pool, async (tx) => {
      await publish(tx, serviceId, await sql.addonRotated(tx, serviceId, next, port));
    });
    log.info({ serviceId }, "addon has a new password");
  }

  /** Removes database and role or server, with everything in them. Idempotent. */
  async function drop(serviceId: string, type: string): Promise<void> {
    if (type === "redis") return redis.remove(serviceId);
    const name = addonName(serviceId);
    await asAdmin(adminUrl, async (admin) => {
      await admin.query(`drop database if exists "${name}" with (force)`);
      await admin.query(`drop role if exists "${name}"`);
    });
  }

  return { provision, rotate, drop };
}

const NO_REDIS =
  "This installation has no redis server: neither redis-server nor valkey-server is on the PATH.";

function requireRedis(redis: RedisServers): string {
  const program = redis.program();
  if (!program) throw new Error(NO_REDIS);
  return program;
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

async function make(admin: pg.Client, serviceId: string, password: string): Promise<void> {
  const name = addonName(serviceId);
  const tolerant = (statement: string) =>
    admin.query(statement).catch((error) => {
      if (!DUPLICATE.has(error.code)) throw error;
    });
  await tolerant(`create role "${name}"`);
  // The server is told a verifier, so that no log of its can hold the password.
  await admin.query(
    `alter role "${name}" login connection limit ${CONNECTIONS} password '${scramVerifier(password)}'`,
  );
  await admin.query(`grant "${name}" to current_user`);
  await tolerant(`create database "${name}" owner "${name}"`);
  await admin.query(`revoke connect, temporary on database "${name}" from public`);
}

/** What PostgreSQL stores of a password (RFC 5803). `password` is plain ASCII. */
function scramVerifier(password: string): string {
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(password, salt, 4096, 32, "sha256");
  const hmac = (text: string) => createHmac("sha256", salted).update(text).digest();
  const stored = createHash("sha256").update(hmac("Client Key")).digest("base64");
  return `SCRAM-SHA-256$4096:${salt.toString("base64")}$${stored}:${hmac("Server Key").toString("base64")}`;
}

async function asAdmin<T>(adminUrl: string, work: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client({ connectionString: adminUrl, connectionTimeoutMillis: 5_000 });
  admin.on("error", () => {});
  try {
    await admin.connect();
    return await work(admin);
  } finally {
    await admin.end().catch(() => {});
  }
}
