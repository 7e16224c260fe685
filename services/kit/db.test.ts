import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, transaction } from "./db.ts";
import { testDatabase } from "./testing.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;

beforeAll(async () => {
  database = await testDatabase(["one"]);
});

afterAll(() => database.drop());

test("a connection that breaks within a transaction fails that work alone", async () => {
  const pool = createPool(database.url("one"), { max: 2 });
  const work = transaction(pool, async (tx) => {
    const { rows } = await tx.query("select pg_backend_pid() as pid");
    const broken = new Promise((resolve) => tx.once("end", resolve));
    await pool.query("select pg_terminate_backend($1)", [rows[0].pid]);
    await broken;
    await tx.query("select 1");
  });
  await expect(work).rejects.toThrow();
  expect((await pool.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
  await pool.end();
});
