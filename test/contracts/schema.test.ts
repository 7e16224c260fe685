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
