import pg from "pg";
import type { Measurement } from "../../../terms/measurement.ts";
import { addonName } from "../../keys.ts";
import { scramVerifier } from "../../scram.ts";

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
    // Not of template1: any addon's role may stay connected to that, and none would be made meanwhile.
    await createIfMissing(`create database "${name}" owner "${name}" template template0`);
    await closeToOthers(admin, name);
  });
}

/** Returns the version of the server, such as `18.1`. */
export function findVersion(adminUrl: string): Promise<string> {
  return asAdmin(adminUrl, async (admin) => {
    const { rows } = await admin.query<{ version: string }>(
      "select split_part(version(), ' ', 2) as version",
    );
    return rows[0]!.version;
  });
}

/**
 * The names of what is made beside an addon's database: two databases and a role by backups and restores, a database and a
 * role of one name by proofs.
 */
export function copiesOf(serviceId: string) {
  const name = addonName(serviceId);
  return {
    restored: `${name}_restored`,
    replaced: `${name}_replaced`,
    copier: `${name}_copier`,
    proof: `${name}_proof`,
  };
}

/** Only the owner of a database may connect to it. */
export async function closeToOthers(admin: pg.Client, database: string): Promise<void> {
  await admin.query(`revoke connect, temporary on database "${database}" from public`);
}

/** Drops an addon's databases and roles. Idempotent. */
export function dropDatabase(adminUrl: string, serviceId: string): Promise<void> {
  const name = addonName(serviceId);
  const { restored, replaced, copier, proof } = copiesOf(serviceId);
  return asAdmin(adminUrl, async (admin) => {
    for (const database of [name, restored, replaced, proof])
      await admin.query(`drop database if exists "${database}" with (force)`);
    for (const role of [copier, proof, name]) await admin.query(`drop role if exists "${role}"`);
  });
}

/** Returns how much addons store, and how many clients each has, of those that this administrator made. */
export function measureDatabases(adminUrl: string): Promise<Measurement[]> {
  return asAdmin(adminUrl, async (admin) => {
    const { rows } = await admin.query<{ id: string; size: number; clients: number }>(
      `select substring(datname from 7) as id, pg_database_size(oid)::float8 as size,
         (select count(*)::int from pg_stat_activity a where a.datid = d.oid and a.usename = d.datname) as clients
       from pg_database d where datname ~ '^addon_[0-9a-z]+$' and pg_has_role(datdba, 'usage')`,
    );
    return rows.map(({ id, size, clients }) => ({
      ...{ serviceId: `svc_${id}`, storageUsed: size, connections: clients, counters: [] },
    }));
  });
}

/** Runs `work` on a connection of the server's administrator. */
export async function asAdmin<T>(adminUrl: string, work: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client({
    connectionString: adminUrl,
    connectionTimeoutMillis: 5_000,
    query_timeout: 60_000,
  });
  admin.on("error", () => {});
  try {
    await admin.connect();
    // Before version 15 every role may create functions in public, which the administrator would call.
    await admin.query("set search_path = pg_catalog");
    return await work(admin);
  } finally {
    await admin.end().catch(() => {});
  }
}
