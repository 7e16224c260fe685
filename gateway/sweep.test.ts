import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "../services/kit/postgres/db.ts";
import { migratedDatabase } from "../services/kit/testing/testing.ts";
import { sweep } from "./sweep.ts";

let database: Awaited<ReturnType<typeof migratedDatabase>>;
let pool: Pool;

beforeAll(async () => {
  database = await migratedDatabase();
  pool = createPool(database.url("gateway"));
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

const insertKeys = (from: number, to: number, expires: string) =>
  pool.query(
    `insert into idempotency_keys (id, request, holder, lease_until, expires_at)
     select int4send(n), '', 'run', now(), now() + $3::interval from generate_series($1::int, $2::int) n`,
    [from, to, expires],
  );
const count = async (table: string): Promise<number> =>
  Number((await pool.query(`select count(*) as n from ${table}`)).rows[0].n);

test("a sweep says that there is more until all that has expired is gone", async () => {
  await insertKeys(1, 5_001, "-1 second");
  await insertKeys(5_002, 5_003, "1 hour");
  await pool.query(
    `insert into used_confirmations (id, expires_at)
     select int4send(n), now() - interval '2 minutes' from generate_series(1, 5001) n`,
  );
  expect(await sweep(pool)).toBe("more");
  expect(await sweep(pool)).toBeUndefined();
  expect([await count("idempotency_keys"), await count("used_confirmations")]).toEqual([2, 0]);
  await pool.query("delete from idempotency_keys");
});

test("a sweep deletes no key that a request takes again meanwhile, and waits for none", async () => {
  await insertKeys(1, 3, "-1 second");
  const request = await pool.connect();
  await request.query("begin");
  await request.query(
    "update idempotency_keys set expires_at = now() + interval '1 day' where id = int4send(2)",
  );
  try {
    await sweep(pool);
  } finally {
    await request.query("commit");
    request.release();
  }
  const { rows } = await pool.query("select id = int4send(2) as taken from idempotency_keys");
  expect(rows).toEqual([{ taken: true }]);
});
