import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "../../kit/postgres/db.ts";
import { migratedDatabase } from "../../kit/testing/testing.ts";
import { msUntilNext } from "./schedule-sql.ts";
import { msUntilDue } from "./sql.ts";

let database: Awaited<ReturnType<typeof migratedDatabase>>;
let pool: Pool;

beforeAll(async () => {
  database = await migratedDatabase();
  pool = createPool(database.url("deployer"));
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

test("where nothing is to run, nothing is due: neither task asks before its period is over", async () => {
  expect([await msUntilNext(pool, []), await msUntilDue(pool)]).toEqual([undefined, undefined]);
});
