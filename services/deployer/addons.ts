import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import pg from "pg";
import { AddonKeysPublishedSchema } from "../../proto/gen/berth/deployer/v1/events_pb.ts";
import { type Pool, transaction } from "../kit/db.ts";
import type { Logger } from "../kit/log.ts";
import { emit } from "../kit/outbox.ts";
import { addonName } from "./addon-keys.ts";
import type { Secrets } from "./secrets.ts";
import { addonReady, addonWaiting, keepSecret } from "./sql-addons.ts";

export type Addons = ReturnType<typeof createAddons>;

/** Connections that one addon's apps may hold together. */
const CONNECTIONS = 20;
const DUPLICATE = new Set(["42710", "42P04", "23505"]);

/**
 * Addons of type postgres: a role and a database of their own in one server. Every step can be repeated,
 * so a killed process goes on where it stood.
 */
export function createAddons(deps: { pool: Pool; secrets: Secrets; adminUrl: string; log: Logger }) {
  const { pool, secrets, adminUrl, log } = deps;

  /** Makes role and database, and publishes the keys. */
  async function provision(serviceId: string): Promise<void> {
    const offered = secrets.seal(randomBytes(24).toString("base64url"), serviceId);
    // The password is kept before the server knows it: it never has one that we have lost.
    const kept = await keepSecret(pool, serviceId, offered);
    if (!kept) return;
    await asAdmin(adminUrl, (admin) => make(admin, serviceId, secrets.open(kept.secret, serviceId))).catch(
      async (error) => {
        await addonWaiting(
          pool,
          serviceId,
          "The server for postgres addons cannot be used; it is tried again.",
        );
        throw error;
      },
    );
    await transaction(pool, async (tx) => {
      const ready = await addonReady(tx, serviceId);
      if (!ready) return;
      const { accountId } = ready;
      await emit(tx, AddonKeysPublishedSchema, accountId, {
        accountId,
        serviceId,
        revision: BigInt(ready.revision),
      });
    });
    log.info({ serviceId }, "addon is ready");
  }

  /** Removes database and role, with everything in them. Idempotent. */
  async function drop(serviceId: string): Promise<void> {
    const name = addonName(serviceId);
    await asAdmin(adminUrl, async (admin) => {
      await admin.query(`drop database if exists "${name}" with (force)`);
      await admin.query(`drop role if exists "${name}"`);
    });
  }

  return { provision, drop };
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
