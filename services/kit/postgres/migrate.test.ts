import { cp, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { testDatabase } from "../testing/testing.ts";
import { createPool } from "./db.ts";
import { findMissing, migrate, requireSchema, UnfitSchema } from "./migrate.ts";
import { dumpSchema } from "./schema-dump.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;
let dir: string;

beforeAll(async () => {
  database = await testDatabase([
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
  ]);
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

describe("a schema that a newer version has migrated", () => {
  const contracted =
    /knows the migrations up to 0002-second\.sql, and since 0004-\w+\.sql only versions that know 0003/;

  /** A schema of its own with the migrations of `dir`, and the folder of a newer version with these files more. */
  async function upgradedBy(schema: string, more: Record<string, string>) {
    const pool = createPool(database.url(schema), { max: 2 });
    const newer = await mkdtemp(join(tmpdir(), "berth-migrations-"));
    onTestFinished(() => Promise.all([pool.end(), rm(newer, { recursive: true })]).then(() => {}));
    await cp(dir, newer, { recursive: true });
    for (const [name, text] of Object.entries(more)) await writeFile(join(newer, name), text);
    return { pool, newer };
  }

  const EXPANDED = { "0003-wider.sql": "alter table a add column more text;" };
  const CONTRACTED = {
    ...EXPANDED,
    "0004-narrower.sql": "-- oldest program: 0003\nalter table a drop column note;",
  };

  test("lets this one start, which changes nothing, again and again", async () => {
    const { pool, newer } = await upgradedBy("three", EXPANDED);
    await migrate(pool, dir);
    expect(await migrate(pool, newer)).toEqual(["0003-wider.sql"]);
    const schema = await dumpSchema(pool);
    expect(await migrate(pool, dir)).toEqual([]);
    expect(await migrate(pool, dir)).toEqual([]);
    expect(await dumpSchema(pool)).toBe(schema);
  });

  test("refuses who does not know what its newest contraction asks for, with a sentence, before anything changes", async () => {
    const { pool, newer } = await upgradedBy("four", CONTRACTED);
    await migrate(pool, newer);
    await pool.query("drop table kept_answers");
    await expect(migrate(pool, dir)).rejects.toThrow(contracted);
    await expect(migrate(pool, dir)).rejects.toThrow(
      /schema four.*Start a newer version, or restore a backup/,
    );
    await expect(migrate(pool, dir)).rejects.toBeInstanceOf(UnfitSchema);
    expect(await dumpSchema(pool)).not.toContain("table kept_answers");
  });

  test("lets the version that the contraction names start", async () => {
    const { pool, newer } = await upgradedBy("five", CONTRACTED);
    await migrate(pool, newer);
    await rm(join(newer, "0004-narrower.sql"));
    expect(await migrate(pool, newer)).toEqual([]);
  });

  test("refuses who does not have a migration that it knows the place of", async () => {
    const { pool, newer } = await upgradedBy("six", EXPANDED);
    await migrate(pool, newer);
    await rename(join(newer, "0003-wider.sql"), join(newer, "0003-other.sql"));
    await expect(migrate(pool, newer)).rejects.toThrow(/0003-wider\.sql was applied to the schema six/);
    await expect(migrate(pool, newer)).rejects.toBeInstanceOf(UnfitSchema);
  });

  test("keeps serving the former program while a later migration fails", async () => {
    const broken = "-- oldest program: 0003\nalter table a drop column note; select nonsense;";
    const { pool, newer } = await upgradedBy("seven", { ...EXPANDED, "0004-broken.sql": broken });
    await expect(migrate(pool, newer)).rejects.toThrow(/0004-broken\.sql failed: .*nonsense/);
    expect(await migrate(pool, dir)).toEqual([]);
    await pool.query("select note, more from a");
  });

  test("was made before contractions were recorded, and records them from then on", async () => {
    const { pool, newer } = await upgradedBy("eight", CONTRACTED);
    await migrate(pool, dir);
    await pool.query("alter table schema_migrations drop column oldest");
    expect(await migrate(pool, dir)).toEqual([]);
    expect(await findMissing(pool, newer)).toEqual(Object.keys(CONTRACTED).slice(0, 2));
    await migrate(pool, newer);
    await expect(migrate(pool, dir)).rejects.toThrow(contracted);
  });

  test("is the same when both versions start together, whoever is first", async () => {
    const { pool, newer } = await upgradedBy("nine", EXPANDED);
    const applied = await Promise.all([dir, newer, dir, newer].map((folder) => migrate(pool, folder)));
    expect(applied.flat().sort()).toEqual(["0001-first.sql", "0002-second.sql", "0003-wider.sql"]);
    expect(await findMissing(pool, newer)).toEqual([]);
  });

  test("lets a command of that version run, and none of one before it or of one after it", async () => {
    const { pool, newer } = await upgradedBy("ten", CONTRACTED);
    await migrate(pool, dir);
    await expect(requireSchema(pool, newer)).rejects.toThrow(/lacks 0003-wider\.sql, 0004-narrower\.sql/);
    await requireSchema(pool, dir);
    await migrate(pool, newer);
    await requireSchema(pool, newer);
    await expect(requireSchema(pool, dir)).rejects.toThrow(contracted);
  });
});
