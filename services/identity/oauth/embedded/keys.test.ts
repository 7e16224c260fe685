import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createPool, type Pool } from "../../../kit/postgres/db.ts";
import { migrate } from "../../../kit/postgres/migrate.ts";
import { eventually, testDatabase } from "../../../kit/testing/testing.ts";
import { loadKeys, scheduleOf } from "./keys.ts";

const HOUR = 3600_000;
const DAY = 24 * HOUR;
const START = Date.UTC(2026, 0, 1);

let database: Awaited<ReturnType<typeof testDatabase>>;
let pool: Pool;
beforeAll(async () => {
  database = await testDatabase(["identity"]);
  pool = createPool(database.url("identity"));
  await migrate(pool, `${import.meta.dirname}/../../migrations`);
});
beforeEach(() => pool.query("delete from oauth_keys"));
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

const secret = () => randomBytes(32);
const kids = (keys: { kid: string }[]) => keys.map(({ kid }) => kid);

test("at any time one key signs, and what an unexpired token was signed with is published, however replicas' clocks differ", () => {
  // Around the times at which something happens, and an outage now and then.
  const about = fc.constantFrom(0, 0, 0, 0.98 * DAY, DAY, 88 * DAY, 89 * DAY, 200 * DAY);
  const pauses = fc.array(
    fc.tuple(about, fc.integer({ min: 0, max: HOUR })).map(([days, more]) => days + more),
    { minLength: 20, maxLength: 60 },
  );
  const skews = fc.array(fc.integer({ min: -5 * 60_000, max: 5 * 60_000 }), { minLength: 60, maxLength: 60 });
  fc.assert(
    fc.property(pauses, skews, (waits, skew) => {
      let keys: { createdAtMs: number; at: number }[] = [];
      const signed: { key: object; at: number }[] = [];
      let time = START;
      for (const [index, wait] of waits.entries()) {
        time += wait;
        const now = time + skew[index]!;
        const plan = scheduleOf(keys, now);
        keys = keys.filter((key) => !plan.over.includes(key));
        if (plan.due)
          keys = [...keys, { createdAtMs: now, at: time }].sort((a, b) => a.createdAtMs - b.createdAtMs);
        const { signing, due, over } = scheduleOf(keys, now);
        expect(keys).toContain(signing);
        expect([due, over]).toEqual([false, []]);
        // Verifiers knew it for a day, but for the very first one.
        if (signed.length > 0 && signed[0]!.key !== signing)
          expect(time - signing!.at).toBeGreaterThanOrEqual(DAY - 10 * 60_000);
        signed.push({ key: signing!, at: time });
        for (const { key, at } of signed) if (at > time - HOUR) expect(keys).toContain(key);
        expect(keys.length).toBeLessThanOrEqual(3);
      }
    }),
    { numRuns: 300 },
  );
});

test("replicas that start at once make one key between them", async () => {
  const secrets = [secret()];
  const blocker = await pool.connect();
  await blocker.query("begin; lock table oauth_keys in exclusive mode");
  const loading = [1, 2].map(() => loadKeys(pool, secrets, START));
  await eventually("both have found none and are about to store one", async () => {
    const waiting =
      "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    return ((await pool.query(waiting)).rowCount ?? 0) === 2;
  });
  await blocker.query("commit");
  blocker.release();
  const [one, other] = await Promise.all(loading);
  expect(one).toEqual(other);
  expect((await pool.query("select from oauth_keys")).rowCount).toBe(1);
});

test("a key signs for 90 days, its successor is published a day before, and it stays published for a day after", async () => {
  const secrets = [secret()];
  const at = (days: number) => loadKeys(pool, secrets, START + days * DAY).then(kids);
  const [first] = await at(0);
  expect(await at(88.9)).toEqual([first]);
  const [, second] = await at(89);
  expect(await at(89.9)).toEqual([first, second]);
  expect(await at(90)).toEqual([second, first]);
  expect(await at(90.9)).toEqual([second, first]);
  expect(await at(91)).toEqual([second]);
});

test("keys stay readable through every rotation of INTERNAL_KEYS, and afterwards need only the new one", async () => {
  const [old, next] = [secret(), secret()];
  const made = await loadKeys(pool, [old], START);
  expect(await loadKeys(pool, [old, next], START)).toEqual(made);
  expect(await loadKeys(pool, [next, old], START)).toEqual(made);
  expect(await loadKeys(pool, [next], START)).toEqual(made);
});

test("a key that was sealed with an unknown secret is named, with what to do about it", async () => {
  const [{ kid }] = (await loadKeys(pool, [secret()], START)) as [{ kid: string }];
  const sentence = `The key ${kid}, which signs tokens of OAuth clients, opens with none of INTERNAL_KEYS: add the one that it was sealed with`;
  await expect(loadKeys(pool, [secret(), secret()], START)).rejects.toThrow(sentence);
});
