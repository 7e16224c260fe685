import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "../services/kit/db.ts";
import { dumpSchema, migrate } from "../services/kit/migrate.ts";
import { testDatabase } from "../services/kit/testing.ts";

const file = join(import.meta.dirname, "schema.sql");
let database: Awaited<ReturnType<typeof testDatabase>>;
let pool: Pool;

beforeAll(async () => {
  database = await testDatabase(["gateway"]);
  pool = createPool(database.url("gateway"));
});

afterAll(async () => {
  await pool.end();
  await database.drop();
});

test("schema.sql is what the migrations make", async () => {
  await migrate(pool, join(import.meta.dirname, "migrations"));
  const schema = await dumpSchema(pool);
  if (process.env.BERTH_WRITE_SCHEMAS) await writeFile(file, schema);
  expect(await readFile(file, "utf8")).toBe(schema);
});
