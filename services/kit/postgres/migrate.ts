import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type pg from "pg";
import { retry } from "../retry.ts";
import { isUnreachable } from "../rpc/errors.ts";
import { connectWithoutTimeouts, type Pool } from "./db.ts";

/** Tables that every service has: outbox, inbox, and answers to requests with an Idempotency-Key. */
const KIT_TABLES = `
create table if not exists outbox (
  seq bigint generated always as identity primary key,
  id text not null unique,
  subject text not null,
  payload bytea not null,
  headers jsonb not null default '{}'
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

/**
 * Applies the numbered files of `dir` (`0001-name.sql`, forward only) that the schema lacks, and returns their names.
 * Without `dir` it creates only kit's own tables. When several replicas start together, one applies and the others
 * wait. Fails when a file that was applied is missing or out of order, and when the database is unreachable for a
 * minute.
 */
export async function migrate(pool: Pool, dir?: string): Promise<string[]> {
  const connect = () => connectWithoutTimeouts(pool);
  const client = await retry(connect, { everyMs: 250, forMs: 60_000, retryIf: isUnreachable });
  try {
    await client.query("select pg_advisory_lock(hashtext('berth-migrate:' || current_schema()))");
    await client.query(
      "create table if not exists schema_migrations (name text primary key, at timestamptz not null default now())",
    );
    await client.query(KIT_TABLES);
    return dir === undefined ? [] : await applyMissing(client, dir);
  } finally {
    await client.end();
  }
}

async function applyMissing(client: pg.Client, dir: string): Promise<string[]> {
  const files = (await readdir(dir)).filter((name) => /^\d{4}-[a-z0-9-]+\.sql$/.test(name)).sort();
  const done = (await client.query<{ name: string }>("select name from schema_migrations order by name"))
    .rows;
  const stray = done.find((row, index) => files[index] !== row.name);
  if (stray)
    throw new Error(
      `Migration ${stray.name} was applied, but this version does not have it at that position.`,
    );
  const missing = files.slice(done.length);
  for (const name of missing) {
    await client.query("begin");
    try {
      await client.query(await readFile(join(dir, name), "utf8"));
      await client.query("insert into schema_migrations (name) values ($1)", [name]);
      await client.query("commit");
    } catch (error) {
      await client.query("rollback");
      throw new Error(`Migration ${name} failed: ${(error as Error).message}`);
    }
  }
  return missing;
}
