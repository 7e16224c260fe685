import pg from "pg";
import { StartFailure } from "./failure.ts";
import type { PostgresServer } from "./postgres.ts";
import { fingerprints, type Secrets, secretsFile } from "./secrets.ts";

/** The role under which the deployer makes databases for addons: it may create them, and nothing else. */
export const addonRole = "berth_addons";

/** The database that holds a schema for each service. */
export const database = "berth";

/**
 * Bring roles, database and schemas into the shape the services expect. Each role owns the schema of its name
 * and sees nothing else. Everything here can be done again, so an interrupted start is made good by the next.
 *
 * @throws StartFailure `wrongKey` when the encryption keys are not those this database was written with.
 */
export async function prepareDatabase(
  server: PostgresServer,
  roles: string[],
  secrets: Secrets,
  data: string,
): Promise<void> {
  await withClient(server.adminUrl, async (client) => {
    for (const role of [...roles, addonRole]) await ensureRole(client, role, secrets);
    await client.query(`ALTER ROLE ${addonRole} CREATEDB CREATEROLE`);
    // What it creates for an addon, it may also hand over to that addon's role.
    await client.query(`ALTER ROLE ${addonRole} SET createrole_self_grant = 'set, inherit'`);
    const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = $1", [database]);
    if (rowCount === 0) await client.query(`CREATE DATABASE ${database}`);
    await client.query(`REVOKE ALL ON DATABASE ${database} FROM PUBLIC`);
    await client.query("REVOKE ALL ON DATABASE postgres FROM PUBLIC");
    await client.query(`GRANT CONNECT ON DATABASE postgres TO ${addonRole}`);
  });
  await withClient(server.url(database), async (client) => {
    for (const role of roles) {
      await client.query(`GRANT CONNECT, TEMPORARY ON DATABASE ${database} TO ${role}`);
      await client.query(`CREATE SCHEMA IF NOT EXISTS ${role} AUTHORIZATION ${role}`);
      await client.query(`ALTER ROLE ${role} IN DATABASE ${database} SET search_path = ${role}`);
    }
    await checkKeys(client, secrets, data);
  });
}

async function ensureRole(client: pg.Client, role: string, secrets: Secrets): Promise<void> {
  const { rowCount } = await client.query("SELECT FROM pg_roles WHERE rolname = $1", [role]);
  if (rowCount === 0) await client.query(`CREATE ROLE ${role}`);
  const password = client.escapeLiteral(secrets.databasePasswords[role] as string);
  await client.query(`ALTER ROLE ${role} LOGIN PASSWORD ${password}`);
}

/**
 * The database remembers by a fingerprint which keys it was written with. Another key under a known name, or
 * none of the known ones, means that somebody's values would be unreadable: better not to start at all.
 */
async function checkKeys(client: pg.Client, secrets: Secrets, data: string): Promise<void> {
  await client.query("CREATE SCHEMA IF NOT EXISTS launcher");
  await client.query(
    "CREATE TABLE IF NOT EXISTS launcher.encryption_keys (id text PRIMARY KEY, fingerprint text NOT NULL)",
  );
  const given = fingerprints(secrets.encryptionKeys);
  const { rows } = await client.query<{ id: string; fingerprint: string }>(
    "SELECT id, fingerprint FROM launcher.encryption_keys",
  );
  const differs = rows.some((row) => given.has(row.id) && given.get(row.id) !== row.fingerprint);
  if (differs || (rows.length > 0 && !rows.some((row) => given.has(row.id)))) {
    throw new StartFailure(
      "wrongKey",
      `The encryption key in ${secretsFile(data)} is not the one this data was encrypted with. ` +
        "Put the former key back, or start anew with --reset.",
    );
  }
  await client.query(
    "INSERT INTO launcher.encryption_keys SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING",
    [[...given.keys()], [...given.values()]],
  );
}

async function withClient(url: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {});
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
