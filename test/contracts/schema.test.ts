import { globSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import { createPool } from "../../services/kit/postgres/db.ts";
import { migrate } from "../../services/kit/postgres/migrate.ts";
import { dumpSchema } from "../../services/kit/postgres/schema-dump.ts";
import { testDatabase } from "../../services/kit/testing/testing.ts";

const root = resolve(import.meta.dirname, "../..");
const folders = globSync("{gateway,services/*}/migrations", { cwd: root }).map((one) =>
  join(root, dirname(one)),
);
const roles = folders.map((folder) => basename(folder));
const database = await testDatabase(roles);

afterAll(() => database.drop());

test.each(roles)("schema.sql of %s is what its migrations make", async (role) => {
  const folder = folders[roles.indexOf(role)]!;
  const file = join(folder, "schema.sql");
  const pool = createPool(database.url(role));
  try {
    await migrate(pool, join(folder, "migrations"));
    const schema = await dumpSchema(pool);
    if (process.env.BERTH_WRITE_SCHEMAS) await writeFile(file, schema);
    expect(await readFile(file, "utf8")).toBe(schema);
  } finally {
    await pool.end();
  }
});

/** What takes from the former program something that it reads or writes. */
const CONTRACTION =
  /\bdrop (table|column)\b|\brename\b|\bset not null\b|\bset data type\b|\balter (column )?\w+ type\b|\badd column (?![^,;]*\b(default|generated)\b)[^,;]*\bnot null\b/i;

test.each(roles)("a migration of %s that contracts says which programs can run on it", async (role) => {
  const pool = createPool(database.url(role), { max: 1 });
  const folder = join(folders[roles.indexOf(role)]!, "migrations");
  await migrate(pool, folder);
  const { rows } = await pool.query("select name from schema_migrations where oldest is null");
  await pool.end();
  for (const { name } of rows) {
    const statements = (await readFile(join(folder, name), "utf8")).replaceAll(/--.*/g, "");
    expect([name, CONTRACTION.exec(statements)?.[0]]).toEqual([name, undefined]);
  }
});

test("contractions are told from expansions", () => {
  const contractions = [
    "alter table a drop column b",
    "drop table a",
    "alter table a rename to b",
    "alter table a alter column b set not null",
    "alter table a alter b type bigint",
    "alter table a add column b int not null",
  ];
  const expansions = [
    "alter table a add column b int not null default 0, add column c text",
    "alter table a add column b int default 0 not null",
    "alter table a add column b int not null generated always as identity",
    "alter table a alter column b drop not null",
    "create table a (type text not null)",
  ];
  expect([...contractions, ...expansions].filter((each) => CONTRACTION.test(each))).toEqual(contractions);
});
