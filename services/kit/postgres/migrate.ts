import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type pg from "pg";
import { retry } from "../concurrency/retry.ts";
import { isUnreachable } from "../failures.ts";
import { connectWithoutTimeouts, type Db, type Pool } from "./db.ts";

/** Tables that every service has: outbox, inbox, and answers to requests with an Idempotency-Key. */
const KIT_TABLES = `
create table if not exists outbox (
  seq bigint generated always as identity primary key,
  id text not null unique,
  subject text not null,
  payload bytea not null,
  headers jsonb not null default '{}'
);
-- What was published of late, for a stream that is lost (docs/events.md#a-lost-stream).
create table if not exists outbox_sent (
  seq bigint primary key,
  id text not null,
  subject text not null,
  payload bytea not null,
  headers jsonb not null,
  stream_seq bigint not null,
  at timestamptz not null default now()
);
create table if not exists inbox (
  consumer text not null,
  event_id text not null,
  at timestamptz not null default now(),
  primary key (consumer, event_id)
);
create index if not exists inbox_at on inbox (at);
create table if not exists inbox_tries (
  consumer text not null,
  event_id text not null,
  tries integer not null,
  at timestamptz not null default now(),
  primary key (consumer, event_id)
);
create table if not exists kept_answers (
  id bytea primary key,
  request bytea not null,
  -- Null only within the transaction that makes it.
  answer bytea,
  at timestamptz not null default now()
);
create index if not exists kept_answers_at on kept_answers (at);
`;

/** A program must not run on this schema; the message says what to do. */
export class UnfitSchema extends Error {
  override name = "UnfitSchema";
}

/**
 * Applies the numbered files of `dir` (`0001-name.sql`, forward only) that the schema lacks, and returns their names.
 * Without `dir` it creates only kit's own tables. When several replicas start together, one applies and the others
 * wait. Fails when the database is unreachable for a minute, and with `UnfitSchema` when `findMissing` does.
 */
export async function migrate(pool: Pool, dir?: string): Promise<string[]> {
  const connect = () => connectWithoutTimeouts(pool);
  const client = await retry(connect, { everyMs: 250, forMs: 60_000, retryIf: isUnreachable });
  try {
    await client.query("select pg_advisory_lock(hashtext('berth-migrate:' || current_schema()))");
    await client.query(
      "create table if not exists schema_migrations (name text primary key, at timestamptz not null default now())",
    );
    const missing = dir === undefined ? [] : await findMissing(client, dir);
    await client.query(KIT_TABLES);
    for (const name of missing) await apply(client, join(dir!, name));
    return missing;
  } finally {
    await client.end();
  }
}

type Applied = { schema: string; name: string; oldest: string | null };

/**
 * Returns the files of `dir` that the schema lacks. The schema may have more: it serves the programs that know the
 * migration which its newest `-- oldest program:` names (CONTRIBUTING.md#recipe-a-migration). Fails with `UnfitSchema`
 * below that, and when the migrations of `dir` are not those that were applied.
 */
export async function findMissing(db: Db, dir: string): Promise<string[]> {
  const files = (await readdir(dir)).filter((name) => /^\d{4}-[a-z0-9-]+\.sql$/.test(name)).sort();
  // Through JSON, because schemas that nothing was applied to since have no such column.
  const { rows } = await db.query<Applied>(
    "select current_schema() as schema, name, to_jsonb(m) ->> 'oldest' as oldest from schema_migrations m order by name",
  );
  const stray = rows.slice(0, files.length).find(({ name }, index) => name !== files[index]);
  if (stray)
    throw new UnfitSchema(
      `Migration ${stray.name} was applied to the schema ${stray.schema}, but this version does not have it at that ` +
        "position. Start the version that applied it or one after it, or restore a backup from before.",
    );
  const newest = files.at(-1) ?? "";
  const contracted = rows.findLast(({ oldest }) => oldest !== null && oldest > newest.slice(0, 4));
  if (contracted)
    throw new UnfitSchema(
      `This version is too old for the schema ${contracted.schema}: it knows the migrations up to ${newest}, and ` +
        `since ${contracted.name} only versions that know ${contracted.oldest} can run on it. ` +
        "Start a newer version, or restore a backup from before that migration.",
    );
  return files.slice(rows.length);
}

/** Fails with `UnfitSchema` unless a command, which applies nothing, can run on the schema as it is. */
export async function requireSchema(db: Db, dir: string): Promise<void> {
  const missing = await findMissing(db, dir);
  if (missing.length > 0)
    throw new UnfitSchema(
      `The schema lacks ${missing.join(", ")}: upgrade the installation to this version first.`,
    );
}

async function apply(client: pg.Client, file: string): Promise<void> {
  const name = basename(file);
  await client.query("begin");
  try {
    const text = await readFile(file, "utf8");
    const [, oldest] = /^-- oldest program: (\d{4})$/m.exec(text) ?? [];
    await client.query(text);
    await client.query("alter table schema_migrations add column if not exists oldest text");
    await client.query("insert into schema_migrations (name, oldest) values ($1, $2)", [name, oldest]);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw new Error(`Migration ${name} failed: ${(error as Error).message}`);
  }
}
