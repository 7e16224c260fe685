import { afterAll, beforeAll, expect, test } from "vitest";
import { UsageThresholdSchema } from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { newId } from "../../../kit/ids.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { putSubscription } from "../../subscription/sql.ts";
import { startUsage, type TestUsage } from "../testing.ts";
import { FREEZE_AFTER_SECONDS } from "./freeze.ts";

const HOUR = 3_600;
const DAY = 24 * HOUR;
/** What a large web service costs a day beyond the allowance: exactly $1.8792. */
const DAILY = (24_000e-9 - 2_250e-9) * DAY;
const second = (iso: string) => Date.parse(iso) / 1_000;

let berth: TestUsage;
beforeAll(async () => {
  berth = await startUsage();
});
afterAll(() => berth?.stop());

/** A large web service that began at a time; `seen` says that it still runs at another. */
async function large(accountId: string, at: number) {
  await berth.advance(Math.max(berth.clock.now, at));
  const { report } = berth.interval(berth.service(accountId), { size: "large" });
  await report("started", at);
  await berth.settled();
  return {
    async seen(until: number) {
      await berth.advance(until);
      await report("heartbeat", until - 1);
      await berth.settled();
    },
    async stop(until: number) {
      await berth.advance(Math.max(berth.clock.now, until + 1));
      await report("stopped", until);
      await berth.settled();
    },
  };
}

const owedUsd = async (accountId: string) => (await berth.usage(accountId)).owedUsd;

const statement = (accountId: string, month: string, periods: number) =>
  eventually(`${periods} periods of ${month} are closed`, async () => {
    const found = await berth
      .as(accountId)
      .getStatement({ accountId, month })
      .catch(() => undefined);
    return found?.periods.length === periods && found;
  });

test("what is owed of the time before a plan does not count towards its budget", async () => {
  const accountId = newId("acc");
  const now = berth.clock.now;
  await berth.computePeriod(accountId, now, now + DAY);
  const service = await large(accountId, now + DAY);
  await service.stop(now + 9 * DAY);
  const alerts = async () =>
    (await berth.published(UsageThresholdSchema, accountId)).filter(
      ({ periodStart }) => Number(periodStart?.seconds) === now + 9 * DAY,
    );
  // The plan's credit is $10, and eight days are owed with it.
  await berth.computePeriod(accountId, now + 9 * DAY, now + 39 * DAY);
  const next = await large(accountId, now + 9 * DAY);
  await next.stop(now + 10 * DAY);
  expect((await berth.usage(accountId)).adjustmentUsd).toBeCloseTo(8 * DAILY, 3);
  await berth.advance(now + 12 * DAY);
  expect(await alerts()).toEqual([]);
});

test("what runs beyond the allowance after a plan has ended is owed, and the next subscription charges it to the cent", async () => {
  const [accountId, stranger] = [newId("acc"), newId("acc")];
  const [start, end] = [second("2027-04-05T00:00:00Z"), second("2027-04-28T00:00:00Z")];
  await berth.computePeriod(accountId, start, end);
  const service = await large(accountId, end);
  const free = await large(stranger, end);
  // Two days into the grace period, then three more, of which two are in the next month.
  await service.seen(end + 2 * DAY);
  await free.seen(end + 2 * DAY);
  expect(await owedUsd(accountId)).toBeCloseTo(2 * DAILY, 3);
  await service.seen(end + 3 * DAY + HOUR / 6);
  await service.seen(end + 4 * DAY);
  await service.stop(end + 5 * DAY);
  await free.stop(end + 5 * DAY);
  expect(await owedUsd(accountId)).toBeCloseTo(5 * DAILY, 4);
  // An account that never had a plan owes nothing.
  expect(await owedUsd(stranger)).toBe(0);

  const again = second("2027-05-20T00:00:00Z");
  await berth.advance(again);
  await berth.computePeriod(accountId, again, again + 30 * DAY);
  await berth.advance(again + HOUR);
  const usage = await eventually("it counts in the new period", async () => {
    const found = await berth.usage(accountId);
    return found.adjustmentUsd > 9 && found;
  });
  expect(usage.adjustmentUsd).toBeCloseTo(5 * DAILY, 4);
  expect([usage.owedUsd, usage.netUsd]).toEqual([0, 0]);

  // Once: the period after it owes nothing of that, also while this one has no statement.
  await berth.computePeriod(accountId, again + 30 * DAY, again + 60 * DAY);
  await berth.advance(again + 30 * DAY + HOUR / 6);
  expect((await berth.usage(accountId)).adjustmentUsd).toBe(0);
  await berth.advance(again + 30 * DAY + FREEZE_AFTER_SECONDS);
  const april = await statement(accountId, "2027-04", 2);
  const later = april.lines.filter(({ kind }) => kind === "not_charged");
  expect(later.map(({ description }) => description)).toEqual([
    "Not charged here: the next subscription charges what is beyond the allowance",
  ]);
  const may = await statement(accountId, "2027-05", 2);
  const charged = may.lines.filter(({ description }) =>
    description.startsWith("Compute beyond the allowance"),
  );
  expect(charged.map(({ description }) => description.slice(-10))).toEqual(["2027-04-28", "2027-05-01"]);
  const sum = charged.reduce((total, { amountUsd }) => total + amountUsd, 0);
  expect(sum).toBeCloseTo(5 * DAILY, 8);
  expect(may.periods[1]).toMatchObject({ billed: true, dueUsd: 9.4, creditUsd: 9.4 });
  expect((await berth.usage(accountId)).adjustmentUsd).toBe(0);
});

test("what was owed for a time that turns out to be a subscription's is taken back", async () => {
  const accountId = newId("acc");
  const [start, end] = [second("2027-08-05T00:00:00Z"), second("2027-08-25T00:00:00Z")];
  await berth.advance(start);
  await berth.computePeriod(accountId, start, end);
  const service = await large(accountId, end);
  await service.seen(second("2027-08-31T00:00:00Z"));
  await service.stop(second("2027-08-31T12:00:00Z"));
  // September has begun: the end of August is closed, and owes six and a half days.
  await berth.advance(second("2027-09-01T01:00:00Z"));
  await eventually("it is recorded", async () => (await owedUsd(accountId)) > 12);
  expect(await owedUsd(accountId)).toBeCloseTo(6.5 * DAILY, 4);
  // Its webhook was late: the account subscribed again on 27 August.
  const again = second("2027-08-27T00:00:00Z");
  for (const _ of ["once", "twice"]) await berth.computePeriod(accountId, again, again + 31 * DAY);
  const usage = await berth.usage(accountId);
  expect(usage.adjustmentUsd).toBeCloseTo(2 * DAILY, 4);
  expect(usage.accruedUsd - usage.allowance!.appliedUsd).toBeCloseTo(4.5 * DAILY, 3);
});

test("what ran under an agreement is not owed", async () => {
  const accountId = newId("acc");
  const [start, end] = [second("2027-11-01T00:00:00Z"), second("2027-11-10T00:00:00Z")];
  await berth.advance(start);
  await berth.computePeriod(accountId, start, end);
  const service = await large(accountId, end);
  await berth.advance(end);
  await berth.pool.query(
    "insert into accounts (id, tier, direct_agreement) values ($1, 'enterprise', true)",
    [accountId],
  );
  await service.seen(end + 4 * DAY);
  expect(await owedUsd(accountId)).toBe(0);
  await berth.pool.query(
    `update accounts set tier = 'free', direct_agreement = false, agreement_until = to_timestamp($2) where id = $1`,
    [accountId, end + 4 * DAY],
  );
  await service.seen(end + 6 * DAY);
  expect(await owedUsd(accountId)).toBeCloseTo(2 * DAILY, 3);
});

test("what ran before a subscription's compute began is owed, also if the subscription began as the former one ended", async () => {
  const accountId = newId("acc");
  const end = berth.clock.now + DAY;
  await berth.computePeriod(accountId, berth.clock.now, end);
  const service = await large(accountId, end);
  await service.seen(end + HOUR);
  const subscription = { id: `sub_${accountId}`, accountId, tier: "pro", cadence: "monthly" } as const;
  await putSubscription(berth.pool, {
    ...{ ...subscription, status: "active", priceVersion: "2026-11", items: [], cancelAtPeriodEnd: false },
    ...{ created: new Date(end * 1_000), currentPeriodEnd: new Date((end + 31 * DAY) * 1_000) },
  });
  // Of a subscription that is new, only the period is not known yet: nothing may be owed.
  expect(await owedUsd(accountId)).toBe(0);
  // Its compute item was added a day late, as billing was away.
  await service.seen(end + DAY);
  await berth.computePeriod(accountId, end + DAY, end + 31 * DAY);
  await service.stop(end + DAY + HOUR);
  expect((await berth.usage(accountId)).adjustmentUsd).toBeCloseTo(DAILY, 4);
  await berth.advance(end + DAY + FREEZE_AFTER_SECONDS + HOUR);
  expect((await berth.usage(accountId)).adjustmentUsd).toBeCloseTo(DAILY, 4);
});

test("what is owed counts in the first period that is billed, also before anything is closed", async () => {
  const accountId = newId("acc");
  const end = berth.clock.now + DAY;
  const [first, second_] = [end + HOUR / 6, end + HOUR / 3];
  await berth.computePeriod(accountId, berth.clock.now, end);
  const service = await large(accountId, end);
  await service.seen(first);
  await berth.computePeriod(accountId, first, second_);
  expect((await berth.usage(accountId)).adjustmentUsd).toBeCloseTo(DAILY / 144, 3);
  await service.seen(second_);
  await berth.computePeriod(accountId, second_, second_ + 30 * DAY);
  await service.stop(second_ + 60);
  expect((await berth.usage(accountId)).adjustmentUsd).toBe(0);
});
