import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type pg from "pg";
import { isAway } from "../rpc/errors.ts";
import { connectPatiently, type Pool } from "./db.ts";

/** Tables that every service has: what leaves it, what it has handled, and what it answered to whom. */
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
  -- Null only within the transaction that gives it.
  answer bytea,
  at timestamptz not null default now()
);
create index if not exists kept_answers_at on kept_answers (at);
`;

/**
 * Brings the current schema up to the numbered files of `dir` (`0001-name.sql`, forward only). Safe
 * when several replicas start together: one applies, the others wait. A file that was applied and is
 * missing or out of order stops the start. A database that is away is tried again for a minute.
 */
export async function migrate(pool: Pool, dir: string): Promise<string[]> {
  const client = await connectWithin(pool, 60_000);
  try {
    await client.query("select pg_advisory_lock(hashtext('berth-migrate:' || current_schema()))");
    await client.query(
      "create table if not exists schema_migrations (name text primary key, at timestamptz not null default now())",
    );
    await client.query(KIT_TABLES);
    return await applyMissing(client, dir);
  } finally {
    await client.end();
  }
}

async function connectWithin(pool: Pool, ms: number): Promise<pg.Client> {
  for (const until = Date.now() + ms; ; ) {
    try {
      return await connectPatiently(pool);
    } catch (error) {
      if (!isAway(error) || Date.now() >= until) throw error;
      await pause(250);
    }
  }
}

async function applyMissing(client: pg.Client, dir: string): Promise<string[]> {
  const files = (await readdir(dir)).filter((name) => /^\d{4}-[a-z0-9-]+\.sql$/.test(name)).sort();
  const done = (await client.query<{ name: string }>("select name from schema_migrations order by name"))
    .rows;
  const stray = done.find((row, index) => files[index] !== row.name);
  if (stray)
    throw new Error(`Migration ${stray.name} was applied, but this version does not have it in that place.`);
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

/** The current schema as text: tables with columns, constraints, indexes and triggers, in a stable order. */
export async function dumpSchema(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ line: string }>(`
    with tables as (
      select c.oid, c.relname from pg_class c
      where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r'
    )
    select line from (
      select relname, 0 as part, 0 as n, format('table %s', relname) as line from tables
      union all
      select t.relname, 1, a.attnum, format('  %s %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        case when a.attnotnull then ' not null' else '' end,
        case when a.attidentity <> '' then ' identity'
             else coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') end)
      from tables t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum
      union all
      select t.relname, 2, row_number() over (partition by t.relname order by c.conname),
        format('  constraint %s %s', c.conname, pg_get_constraintdef(c.oid))
      from tables t join pg_constraint c on c.conrelid = t.oid and c.contype <> 'n'
      union all
      select t.relname, 3, row_number() over (partition by t.relname order by i.relname),
        '  ' || replace(pg_get_indexdef(i.oid), current_schema() || '.', '')
      from tables t join pg_index x on x.indrelid = t.oid join pg_class i on i.oid = x.indexrelid
      where not exists (select from pg_constraint c where c.conindid = x.indexrelid and c.contype in ('p', 'u', 'x'))
      union all
      select t.relname, 4, row_number() over (partition by t.relname order by g.tgname),
        '  ' || replace(pg_get_triggerdef(g.oid), current_schema() || '.', '')
      from tables t join pg_trigger g on g.tgrelid = t.oid and not g.tgisinternal
    ) lines order by relname, part, n`);
  return `${rows.map((row) => row.line).join("\n")}\n`;
}
