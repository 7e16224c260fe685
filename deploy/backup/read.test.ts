import { execFile, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { migratedDatabase } from "../../services/kit/testing/testing.ts";
import { testNats } from "../../test/support/servers/nats.ts";
import { makeBackup } from "./backup.ts";
import { listBackups } from "./backups.ts";
import { openFolder } from "./folder.ts";

const hasPsql = spawnSync("psql", ["--version"]).status === 0;
if (!hasPsql) console.warn("No psql on the PATH: reading a backup without Berth is not tested.");

let folder: string;
let nats: Awaited<ReturnType<typeof testNats>>;
let database: Awaited<ReturnType<typeof migratedDatabase>>;
const name = `t_${randomBytes(6).toString("hex")}`;

beforeAll(async () => {
  [folder, nats, database] = await Promise.all([
    mkdtemp(join(tmpdir(), "berth-read-")),
    testNats(),
    migratedDatabase(),
  ]);
});
afterAll(async () => {
  await ask(inject("postgresAdminUrl"), `drop database if exists ${name}`);
  await Promise.all([nats.remove(), database.drop(), rm(folder, { recursive: true })]);
});

async function ask(url: string, sql: string) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return (await client.query(sql).finally(() => client.end())).rows;
}

test.skipIf(!hasPsql)("a backup is read without Berth by what its page says, row by row", async () => {
  const own = database.url("deployer");
  await ask(
    own,
    `insert into deployer.projects (id, account_id, name) values
       ('prj_1', 'acc', E'a "name"\\\\\\\\ \\n\\t ünï \\\\.'), ('prj_2', 'acc', E'\\\\.\\r\\n{}');
     insert into deployer.outbox (id, subject, payload, headers) values ('evt_1', 's', '\\x00ff10', '{"a": 1.50}');
     insert into deployer.inbox (consumer, event_id, at) values ('c', 'e', '2026-01-02 03:04:05.678901+00')`,
  );
  const backups = openFolder(folder);
  await makeBackup({ database: own, natsUrl: nats.url, backups }, { keep: 1, missing: [] });
  const [made] = await listBackups(backups);

  const page = await readFile(join(import.meta.dirname, "../../docs/backup.md"), "utf8");
  const recipe = /^## Reading a backup without Berth\n[^#]*?```sh\n(.*?)```/ms.exec(page)![1]!;
  const { hostname, port, username, password } = new URL(inject("postgresAdminUrl"));
  const run = promisify(execFile);
  const env = { PATH: process.env.PATH, PGHOST: hostname, PGPORT: port };
  const login = { PGUSER: decodeURIComponent(username), PGPASSWORD: decodeURIComponent(password) };
  const { stderr } = await run("sh", ["-euc", recipe.replaceAll("berth_backup", name)], {
    cwd: join(folder, "backups", made!),
    env: { ...env, ...login },
  });
  expect(stderr).toBe("");

  const read = new URL(inject("postgresAdminUrl"));
  read.pathname = `/${name}`;
  for (const table of ["projects", "outbox", "inbox", "schema_migrations"]) {
    const all = `select to_json(t)::text as row from deployer.${table} t order by 1`;
    const rows = await ask(read.href, all);
    expect(rows.length).toBeGreaterThan(0);
    expect(rows).toEqual(await ask(own, all));
  }
  // Nothing of the database is left out but the fingerprints of keys.
  const tables = `select table_schema || '.' || table_name as name from information_schema.tables
    where table_schema !~ '^pg_' and table_schema <> 'information_schema' and table_name <> 'encryption_keys' order by 1`;
  const unlogged = (await ask(own, "select relname from pg_class where relpersistence = 'u'")).map(
    (row) => row.relname,
  );
  const there = (await ask(own, tables)).filter(
    (row) => !unlogged.some((one) => row.name.endsWith(`.${one}`)),
  );
  expect(await ask(read.href, tables)).toEqual(there);
});
