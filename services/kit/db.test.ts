import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { createPool, type Pool, rows, transaction } from "./db.ts";
import { testDatabase } from "./testing.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;
let pools: Pool[] = [];

beforeAll(async () => {
  database = await testDatabase(["one"]);
});

afterEach(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  pools = [];
});

afterAll(() => database.drop());

function open(max = 2): Pool {
  const pool = createPool(database.url("one"), { max });
  pools.push(pool);
  return pool;
}

test("a connection that breaks within a transaction fails that work alone", async () => {
  const [pool, other] = [open(), open()];
  const work = transaction(pool, async (tx) => {
    const { rows } = await tx.query("select pg_backend_pid() as pid");
    const broken = new Promise((resolve) => tx.once("end", resolve));
    await other.query("select pg_terminate_backend($1)", [rows[0].pid]);
    await broken;
    await tx.query("select 1");
  });
  await expect(work).rejects.toThrow();
  expect((await pool.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
});

test.each<[string, (pool: Pool) => Promise<unknown>]>([
  ["a statement", (pool) => rows(pool, "one", "select 1")],
  ["a connection", (pool) => pool.connect().then((client) => client.release())],
  ["a second transaction", (pool) => transaction(pool, async () => {})],
  ["a statement after a pause", (pool) => delay(1).then(() => pool.query("select 1"))],
])("inside a transaction %s of the same pool throws at once and rolls back", async (_, reach) => {
  // With one connection it would wait for itself.
  const pool = open(1);
  await pool.query("create table if not exists kept (n int)");
  const work = transaction(pool, async (tx) => {
    await tx.query("insert into kept values (1)");
    await reach(pool);
  });
  await expect(work).rejects.toThrow("may use only its tx");
  expect((await pool.query("select from kept")).rowCount).toBe(0);
});

test("a transaction may use another pool, and what it leaves behind its own once it is over", async () => {
  const [pool, other] = [open(1), open(1)];
  const later = await transaction(pool, async () => {
    await transaction(other, (tx) => tx.query("select 1"));
    const over = Promise.withResolvers<void>();
    const left = over.promise.then(() => pool.query("select 7 as n"));
    return { left, over };
  });
  later.over.resolve();
  expect((await later.left).rows).toEqual([{ n: 7 }]);
});

test("transactions of one pool that run beside each other do not disturb each other", async () => {
  const pool = open();
  const work = () => transaction(pool, (tx) => tx.query("select pg_sleep(0.05)"));
  await Promise.all([work(), work(), pool.query("select 1"), work()]);
});
