import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "../../kit/postgres/db.ts";
import { migratedDatabase } from "../../kit/testing/testing.ts";
import { FREEZE_AFTER_SECONDS } from "../usage/closing/freeze.ts";
import { retrySeconds } from "./report-periods.ts";
import { takePeriod } from "./sql.ts";

const MINUTE = 60;
const HOUR = 3_600;
const DAY = 24 * HOUR;
const NOW = Date.UTC(2027, 3, 1) / 1_000;

let database: Awaited<ReturnType<typeof migratedDatabase>>;
let pool: Pool;

beforeAll(async () => {
  database = await migratedDatabase();
  pool = createPool(database.url("billing"));
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

test("a period that is to be closed comes before those that run, however many these are and however long they wait", async () => {
  await pool.query(
    `insert into metered_periods (subscription_id, started_at, ended_at, account_id, customer_id, tier, next_at)
     select 'sub_' || n, to_timestamp($1) - interval '1 day', to_timestamp($1) + interval '1 day', 'acc', 'cus', 'pro', '-infinity'
     from generate_series(1, 3) n
     union all
     select 'sub_over', to_timestamp($1) - interval '30 days', to_timestamp($1) - interval '46 minutes', 'acc', 'cus', 'pro',
       to_timestamp($1) - interval '1 minute'`,
    [NOW],
  );
  const taking = { now: NOW, until: NOW + MINUTE, endedBefore: NOW - FREEZE_AFTER_SECONDS };
  const taken: string[] = [];
  for (let times = 0; times < 4; times++) taken.push((await takePeriod(pool, taking))!.subscriptionId);
  expect(taken[0]).toBe("sub_over");
  expect(await takePeriod(pool, taking)).toBeUndefined();
});

test("a report that fails is tried again every minute until the invoice is final, then less and less often", () => {
  const frozenAt = NOW + FREEZE_AFTER_SECONDS;
  const after = (seconds: number) => retrySeconds({ end: NOW }, frozenAt + seconds);
  expect([0, 15 * MINUTE].map(after)).toEqual([MINUTE, MINUTE]);
  expect(after(HOUR)).toBe(4 * MINUTE);
  expect([DAY, 30 * DAY].map(after)).toEqual([HOUR, HOUR]);
  // What a running period has come to is not what is paid.
  expect(retrySeconds({ end: NOW }, NOW - DAY)).toBe(10 * MINUTE);
  expect(after(-2 * MINUTE)).toBe(2 * MINUTE);
});
