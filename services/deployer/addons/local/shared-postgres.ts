import pg from "pg";
import { addonName } from "../keys.ts";
import { scramVerifier } from "../scram.ts";

/** Connections that the apps of one addon may hold together. */
const CONNECTION_LIMIT = 20;
/** SQLSTATEs of a role or database that exists already, or is being created by another process. */
const DUPLICATE = new Set(["42710", "42P04", "23505"]);

/** Creates an addon's role and database in the server of `adminUrl`, with this password. Idempotent. */
export function ensureDatabase(adminUrl: string, serviceId: string, password: string): Promise<void> {
  const name = addonName(serviceId);
  return asAdmin(adminUrl, async (admin) => {
    const createIfMissing = (statement: string) =>
      admin.query(statement).catch((error) => {
        if (!DUPLICATE.has(error.code)) throw error;
      });
    await createIfMissing(`create role "${name}"`);
    // The server receives a verifier, so that no log of its own can hold the password.
    await admin.query(
      `alter role "${name}" login connection limit ${CONNECTION_LIMIT} password '${scramVerifier(password)}'`,
    );
    await admin.query(`grant "${name}" to current_user`);
    await createIfMissing(`create database "${name}" owner "${name}"`);
    await admin.query(`revoke connect, temporary on database "${name}" from public`);
  });
}

/** Drops an addon's database and role. Idempotent. */
export function dropDatabase(adminUrl: string, serviceId: string): Promise<void> {
  const name = addonName(serviceId);
  return asAdmin(adminUrl, async (admin) => {
    await admin.query(`drop database if exists "${name}" with (force)`);
    await admin.query(`drop role if exists "${name}"`);
  });
}

async function asAdmin<T>(adminUrl: string, work: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client({
    connectionString: adminUrl,
    connectionTimeoutMillis: 5_000,
    query_timeout: 60_000,
  });
  admin.on("error", () => {});
  try {
    await admin.connect();
    return await work(admin);
  } finally {
    await admin.end().catch(() => {});
  }
}
