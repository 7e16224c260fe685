import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";

export type Table = { schema: string; name: string; columns: string[] };
export type Sequence = { schema: string; name: string; value: string; called: boolean };
export type Content = {
  tables: Table[];
  sequences: Sequence[];
  /** The names of the migrations of each schema. */
  migrations: Record<string, string[]>;
  /** Fingerprints of the keys that variables are encrypted with, by id. */
  keys: Record<string, string>;
};

const quote = pg.escapeIdentifier;
const path = ({ schema, name }: { schema: string; name: string }) => `${quote(schema)}.${quote(name)}`;
const PLATFORM = "n.nspname !~ '^pg_' and n.nspname <> 'information_schema'";
const KEYS = "encryption_keys";
const BATCH = 1_000;
/** How long writers of events wait for those under way, and how often that is tried. */
const CUT_WAIT = "3s";
const CUT_TRIES = 20;

export async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, keepAlive: true });
  client.on("error", () => {});
  await client.connect();
  return client;
}

/** Does work that needs the connection. When the server ends it, the failure says so, and `what` has become of it. */
export async function whileConnected<T>(client: pg.Client, what: string, work: () => Promise<T>): Promise<T> {
  let gone = false;
  for (const event of ["error", "end"])
    client.once(event, () => {
      gone = true;
    });
  try {
    return await work();
  } catch (error) {
    const ended = /^57P0/.test((error as { code?: string }).code ?? "");
    throw gone || ended ? new Error(`the database server ended the connection: ${what}`) : error;
  }
}

/** Throws while a backup or a restore of the installation runs. Held until the connection ends. */
export async function beAlone(client: pg.Client): Promise<void> {
  const { rows } = await client.query("select pg_try_advisory_lock(hashtext('berth-backup')) as held");
  if (!rows[0].held)
    throw new Error("another backup or restore of this installation is in progress; try again later");
}

/**
 * Begins a transaction on `reader` that sees the database as it is at one moment, and calls `atCut` at that moment:
 * what has been published until then is of changes that the transaction sees, and what it does not see is published
 * later. For that, no outbox changes for an instant.
 */
export async function beginCut<T>(url: string, reader: pg.Client, atCut: () => Promise<T>): Promise<T> {
  const holder = await connect(url);
  try {
    for (let attempt = 1; ; attempt++) {
      await holder.query("begin");
      const held = await lockOutboxes(holder).catch((error: Error & { code?: string }) => {
        if (error.code !== "55P03" || attempt === CUT_TRIES) throw error;
      });
      if (held) break;
      await holder.query("rollback");
      await delay(1_000);
    }
    const { rows } = await holder.query("select pg_export_snapshot() as id");
    await reader.query("begin isolation level repeatable read read only");
    await reader.query(`set transaction snapshot ${pg.escapeLiteral(rows[0].id)}`);
    return await atCut();
  } finally {
    await holder.end();
  }
}

async function lockOutboxes(client: pg.Client): Promise<true> {
  const tables = (await listTables(client)).filter(({ name }) => name === "outbox").map(path);
  await client.query(`set local lock_timeout = '${CUT_WAIT}'`);
  if (tables.length > 0) await client.query(`lock table ${tables.join(", ")} in share mode`);
  return true;
}

async function listTables(client: pg.Client): Promise<Table[]> {
  const { rows } = await client.query<Table>(
    `select n.nspname as schema, c.relname as name,
       array_agg(a.attname::text order by a.attnum) filter (where a.attgenerated = '') as columns
     from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
     where c.relkind = 'r' and c.relpersistence = 'p' and ${PLATFORM} and a.attnum > 0 and not a.attisdropped
     group by 1, 2 order by 1, 2`,
  );
  return rows;
}

/** Returns what the database has. Unlogged tables are left out: they do not outlast a crash either. */
export async function readContent(client: pg.Client): Promise<Content> {
  const all = await listTables(client);
  const sequences = await client.query<Sequence>(
    `select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind = 'S' and c.relpersistence = 'p' and ${PLATFORM} order by 1, 2`,
  );
  for (const sequence of sequences.rows) {
    const { rows } = await client.query(
      `select last_value::text as value, is_called as called from ${path(sequence)}`,
    );
    Object.assign(sequence, rows[0]);
  }
  const migrations: Content["migrations"] = {};
  for (const table of all.filter(({ name }) => name === "schema_migrations")) {
    const { rows } = await client.query(`select name from ${path(table)} order by name`);
    migrations[table.schema] = rows.map((row) => row.name);
  }
  const keys: Content["keys"] = {};
  for (const table of all.filter(({ name }) => name === KEYS))
    for (const row of (await client.query(`select id, fingerprint from ${path(table)}`)).rows)
      keys[row.id] = row.fingerprint;
  return { tables: all.filter(isRestored), sequences: sequences.rows, migrations, keys };
}

/**
 * Whether a table's rows are restored. Fingerprints of keys are of the installation that is restored to: it has those of
 * its own keys, and on one machine in another schema than on a cluster.
 */
export function isRestored({ name }: Table): boolean {
  return name !== KEYS;
}

/** Returns statements that create the tables with their columns, and nothing else of them. */
export async function readDefinitions(client: pg.Client, tables: Table[]): Promise<string> {
  const schemas = [...new Set(tables.map(({ schema }) => `create schema ${quote(schema)};`))];
  const definitions: string[] = [];
  for (const table of tables) {
    const { rows } = await client.query<{ name: string; type: string }>(
      `select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute
       where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum`,
      [path(table)],
    );
    const columns = rows.map(({ name, type }) => `  ${quote(name)} ${type}`);
    definitions.push(`create table ${path(table)} (\n${columns.join(",\n")}\n);`);
  }
  return `${[...schemas, ...definitions].join("\n")}\n`;
}

/** Yields the rows of a table as JSON, as the transaction sees them. */
export async function* readRows(client: pg.Client, table: Table): AsyncGenerator<string> {
  // `to_json` keeps what a column of type json has.
  await client.query(
    `declare rows no scroll cursor for select to_json(t)::text as row from ${path(table)} t`,
  );
  for (;;) {
    const { rows } = await client.query<{ row: string }>(`fetch ${BATCH} from rows`);
    for (const { row } of rows) yield row;
    if (rows.length < BATCH) break;
  }
  await client.query("close rows");
}

/** Replaces all that the tables hold, in the caller's transaction. No trigger and no foreign key acts meanwhile. */
export async function clear(client: pg.Client, content: Content): Promise<void> {
  await client.query("set local session_replication_role = replica");
  await client.query(`truncate ${content.tables.map(path).join(", ")}`);
}

export async function writeRows(client: pg.Client, table: Table, rows: AsyncIterable<string>): Promise<void> {
  const columns = table.columns.map(quote).join(", ");
  const write = (batch: string[]) =>
    client.query(
      `insert into ${path(table)} (${columns}) overriding system value
       select ${columns} from json_populate_recordset(null::${path(table)}, $1::json)`,
      [`[${batch.join(",")}]`],
    );
  let batch: string[] = [];
  for await (const row of rows) {
    if (batch.push(row) < BATCH) continue;
    await write(batch);
    batch = [];
  }
  if (batch.length > 0) await write(batch);
}

export async function setSequences(client: pg.Client, sequences: Sequence[]): Promise<void> {
  for (const sequence of sequences)
    await client.query("select setval($1::regclass, $2::bigint, $3)", [
      path(sequence),
      sequence.value,
      sequence.called,
    ]);
}

/** Returns who else is connected to the database. */
export async function listOthers(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select distinct coalesce(nullif(application_name, ''), usename::text, 'unknown') as name from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend' order by 1`,
  );
  return rows.map((row) => row.name);
}
