import { globSync, readdirSync } from "node:fs";
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

/** Each must have a number that no other has: names are applied in order, and one that gets in between is refused. */
function misnamedMigrations(names: string[]): string[] {
  const numbers = names.map((name) => /^(\d{4})-[a-z0-9-]+\.sql$/.exec(name)?.[1]);
  return names.filter((_, at) => numbers[at] === undefined || numbers.indexOf(numbers[at]) !== at);
}

test.each(roles)("the migrations of %s have numbers of their own", (role) => {
  const folder = join(folders[roles.indexOf(role)]!, "migrations");
  expect(misnamedMigrations(readdirSync(folder).sort())).toEqual([]);
});

test("a migration that would be left out, or come between others, is found", () => {
  const names = ["0001-a.sql", "0002-b.sql", "0002-c.sql", "0003_d.sql", "4-e.sql", "0005-F.sql"];
  expect(misnamedMigrations(names)).toEqual(names.slice(2));
});

/** What takes from the former program something that it reads or writes. */
const CONTRACTION =
  /\bdrop (table|column)\b|\brename\b|\bset not null\b|\bset data type\b|\balter (column )?\w+ type\b|\badd column (?![^,;]*\b(default|generated)\b)[^,;]*\bnot null\b/i;

test.each(roles)("a migration of %s that contracts says which programs can run on it", async (role) => {
  const pool = createPool(database.url(role), { max: 1 });
  const folder = join(folders[roles.indexOf(role)]!, "migrations");
  await migrate(pool, folder);
  const { rows } = await pool.query("select name, oldest from schema_migrations");
  await pool.end();
  // The program before this migration knows at most the one before.
  expect(rows.filter(({ name, oldest }) => oldest !== null && oldest >= name.slice(0, 4))).toEqual([]);
  for (const { name, oldest } of rows) {
    if (oldest !== null) continue;
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
