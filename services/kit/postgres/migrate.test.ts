import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { testDatabase } from "../testing/testing.ts";
import { createPool } from "./db.ts";
import { migrate } from "./migrate.ts";
import { dumpSchema } from "./schema-dump.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;
let dir: string;

beforeAll(async () => {
  database = await testDatabase(["one", "two", "three"]);
  dir = await mkdtemp(join(tmpdir(), "berth-migrations-"));
  await writeFile(
    join(dir, "0001-first.sql"),
    "create table a (id text primary key, n int not null default 3);",
  );
  await writeFile(
    join(dir, "0002-second.sql"),
    "alter table a add column note text; create index a_note on a (note);",
  );
});

afterAll(async () => {
  await database.drop();
  await rm(dir, { recursive: true });
});

test("replicas that start together apply each migration once", async () => {
  const pools = Array.from({ length: 4 }, () => createPool(database.url("one"), { max: 2 }));
  const applied = await Promise.all(pools.map((pool) => migrate(pool, dir)));
  expect(applied.flat()).toEqual(["0001-first.sql", "0002-second.sql"]);
  expect(await dumpSchema(pools[0]!)).toContain(
    "table a\n  id text not null\n  n integer not null default 3\n  note text\n  constraint a_pkey PRIMARY KEY (id)\n  CREATE INDEX a_note ON a USING btree (note)\n",
  );
  await Promise.all(pools.map((pool) => pool.end()));
});

test("a migration that fails leaves nothing behind and names itself", async () => {
  const pool = createPool(database.url("two"));
  const broken = join(dir, "0003-broken.sql");
  await writeFile(broken, "create table b (id int); select nonsense;");
  await expect(migrate(pool, dir)).rejects.toThrow(/0003-broken\.sql failed: .*nonsense/);
  expect(await dumpSchema(pool)).not.toContain("table b");
  await writeFile(broken, "create table b (id int);");
  expect(await migrate(pool, dir)).toEqual(["0003-broken.sql"]);
  await rm(broken);
  await pool.end();
});

test("a database that is ahead of this version stops the start", async () => {
  const pool = createPool(database.url("three"));
  const later = join(dir, "0003-later.sql");
  await writeFile(later, "select 1;");
  await migrate(pool, dir);
  await rm(later);
  await expect(migrate(pool, dir)).rejects.toThrow(/0003-later\.sql was applied/);
  await pool.end();
});
