import { createHmac } from "node:crypto";
import pg from "pg";

/** A role of the database, and the schema of one process that it owns. */
export type Login = { name: string; role: string; password: string };

/** The given encryption keys are not those that the database's data was encrypted with. */
export class WrongKey extends Error {
  override name = "WrongKey";
}

const quote = pg.escapeIdentifier;

/**
 * Creates the roles, the database and the schemas that the processes expect; each role owns its schema and has no
 * access to the others. Safe to repeat: what exists stays, and passwords are set to those given. `admin` is the URL
 * of another database of the server, with a role that may create roles and databases.
 */
export async function prepareDatabase(admin: string, database: string, logins: Login[]): Promise<void> {
  const name = quote(database);
  await withClient(admin, async (client) => {
    for (const login of logins) await ensureRole(client, login.role, login.password);
    const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = $1", [database]);
    if (rowCount === 0) await client.query(`CREATE DATABASE ${name}`);
    await client.query(`REVOKE ALL ON DATABASE ${name} FROM PUBLIC`);
    for (const { role } of logins)
      await client.query(`GRANT CONNECT, TEMPORARY ON DATABASE ${name} TO ${quote(role)}`);
  });
  await withClient(databaseUrl(admin, database), async (client) => {
    for (const login of logins) {
      const [role, schema] = [quote(login.role), quote(login.name)];
      await client.query(`CREATE SCHEMA IF NOT EXISTS ${schema} AUTHORIZATION ${role}`);
      await client.query(`ALTER ROLE ${role} IN DATABASE ${name} SET search_path = ${schema}`);
    }
  });
}

/** Creates a role unless it exists, lets it log in, and sets its password. */
export async function ensureRole(client: pg.Client, role: string, password: string): Promise<void> {
  const { rowCount } = await client.query("SELECT FROM pg_roles WHERE rolname = $1", [role]);
  if (rowCount === 0) await client.query(`CREATE ROLE ${quote(role)}`);
  await client.query(`ALTER ROLE ${quote(role)} LOGIN PASSWORD ${pg.escapeLiteral(password)}`);
  // An administrator that is not a superuser must be a member of a role to make it an owner.
  const { rows } = await client.query("SELECT rolsuper FROM pg_roles WHERE rolname = current_user");
  if (!rows[0].rolsuper) await client.query(`GRANT ${quote(role)} TO CURRENT_USER`);
}

/**
 * Compares the keys with the fingerprints of those that the data was encrypted with, and stores the fingerprints of
 * new ones in `schema`. A different key under a known id, or no known id at all, would leave values unreadable. While
 * nothing is encrypted, other keys are taken: those of an installation that failed may be lost with it.
 *
 * @throws WrongKey when the data could not be read with these keys.
 */
export async function checkEncryptionKeys(url: string, schema: string, keys: string): Promise<void> {
  const table = `${quote(schema)}.encryption_keys`;
  await withClient(url, async (client) => {
    await client.query(`CREATE SCHEMA IF NOT EXISTS ${quote(schema)}`);
    await client.query(
      `CREATE TABLE IF NOT EXISTS ${table} (id text PRIMARY KEY, fingerprint text NOT NULL)`,
    );
    const given = fingerprints(keys);
    const { rows } = await client.query<{ id: string; fingerprint: string }>(
      `SELECT id, fingerprint FROM ${table}`,
    );
    const differs = rows.some((row) => given.has(row.id) && given.get(row.id) !== row.fingerprint);
    if (differs || (rows.length > 0 && !rows.some((row) => given.has(row.id)))) {
      if (await holdsEncrypted(client))
        throw new WrongKey("The encryption keys are not the ones with which this data was encrypted.");
      await client.query(`DELETE FROM ${table}`);
    }
    await client.query(
      `INSERT INTO ${table} SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING`,
      [[...given.keys()], [...given.values()]],
    );
  });
}

/** Whether the database holds anything that an encryption key protects: the data keys of accounts. */
async function holdsEncrypted(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query("SELECT to_regclass('variables.data_keys') IS NOT NULL AS there");
  if (!rows[0].there) return false;
  return (await client.query("SELECT FROM variables.data_keys LIMIT 1")).rowCount === 1;
}

/** Returns a fingerprint for each key id, by which a key is recognised without being stored. */
export function fingerprints(encryptionKeys: string): Map<string, string> {
  const pairs = encryptionKeys.split(",").map((part) => {
    const [id = "", key = ""] = part.trim().split(/:(.*)/s);
    const mac = createHmac("sha256", Buffer.from(key, "base64")).update("berth key fingerprint");
    return [id, mac.digest("hex").slice(0, 32)] as const;
  });
  return new Map(pairs);
}

/** Returns the URL of another database of the same server. */
export function databaseUrl(server: string, database: string): string {
  const url = new URL(server);
  url.pathname = `/${database}`;
  return url.href;
}

/** Calls `work` with a new connection, and closes it afterwards. */
export async function withClient(url: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {});
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
