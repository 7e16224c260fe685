import { afterAll, beforeAll, expect, test } from "vitest";
import {
  SpendLimitReachedSchema,
  SuspensionChangedSchema,
} from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { newId } from "../../../kit/ids.ts";
import { refused } from "../../../kit/testing/refusal.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { startUsage, type TestUsage } from "../testing.ts";

const DAY = 86_400;

let berth: TestUsage;
beforeAll(async () => {
  berth = await startUsage();
});
afterAll(() => berth?.stop());

const percents = async (accountId: string) =>
  (await berth.published(SpendLimitReachedSchema, accountId)).map(({ percent }) => percent);
const untilPercents = (accountId: string, ...expected: number[]) =>
  eventually(
    `${expected} percent are announced`,
    async () => (await percents(accountId)).join() === expected.join(),
  );
/** Waits until billing has announced this of what an account may run, last. */
const untilReason = (accountId: string, reason: string) =>
  eventually(
    `"${reason}" is announced`,
    async () => (await berth.published(SuspensionChangedSchema, accountId)).at(-1)?.reason === reason,
  );

test("owners are told of 50, 80 and 100 percent; then services stop, until the limit is raised or the period ends", async () => {
  const accountId = newId("acc");
  const owner = berth.as(accountId);
  const start = berth.clock.now;
  await berth.computePeriod(accountId, start, start + 30 * DAY, "pro");
  expect(await owner.setSpendLimit({ accountId, limitUsd: 10 })).toMatchObject({
    limitUsd: 10,
    spentUsd: 0,
    reached: false,
  });
  // $18.792 a day beyond the allowance and more; the plan pays $10 of it.
  const { report } = berth.interval(berth.service(accountId), { size: "large", replicas: 10 });
  await report("started", start);
  const goTo = async (day: number) => {
    await berth.advance(start + day * DAY);
    await report("heartbeat", start + day * DAY - 1);
    await berth.settled();
    await berth.advance(start + day * DAY + 1);
  };
  await goTo(0.6);
  expect(await percents(accountId)).toEqual([]);
  await goTo(0.75);
  await untilPercents(accountId, 50);
  await goTo(0.9);
  await untilPercents(accountId, 50, 80);
  await goTo(1);
  await untilPercents(accountId, 50, 80, 100);
  await untilReason(accountId, "spend_limit");
  const reached = await owner.getSpendLimit({ accountId });
  expect(reached).toMatchObject({ limitUsd: 10, reached: true });
  expect(reached.spentUsd).toBeCloseTo(10.54, 1);
  expect(Number(reached.periodEnd!.seconds)).toBe(start + 30 * DAY);
  const [, , last] = await berth.published(SpendLimitReachedSchema, accountId);
  expect(last).toMatchObject({ percent: 100, limitCents: 1_000n });

  await owner.setSpendLimit({ accountId, limitUsd: 20 });
  await untilReason(accountId, "");
  await untilPercents(accountId, 50, 80, 100, 50);
  await goTo(2);
  await untilReason(accountId, "spend_limit");
  await report("stopped", start + 2 * DAY + 30);
  await berth.settled();

  // Another period begins.
  await berth.computePeriod(accountId, start + 30 * DAY, start + 60 * DAY, "pro");
  await berth.advance(start + 30 * DAY);
  await untilReason(accountId, "");
  expect(await owner.getSpendLimit({ accountId })).toMatchObject({
    limitUsd: 20,
    spentUsd: 0,
    reached: false,
  });
});

test("a limit that is removed stops nothing, and other accounts are left alone", async () => {
  const [accountId, stranger] = [newId("acc"), newId("acc")];
  const owner = berth.as(accountId);
  const start = berth.clock.now;
  for (const each of [accountId, stranger]) {
    await berth.computePeriod(each, start, start + 30 * DAY);
    const { report } = berth.interval(berth.service(each), { size: "large", replicas: 20 });
    await report("started", start);
    await report("stopped", start + 1);
  }
  await berth.settled();
  await owner.setSpendLimit({ accountId, limitUsd: 1 });
  const { report } = berth.interval(berth.service(accountId), { size: "large", replicas: 20 });
  await report("started", start + 2);
  await berth.settled();
  await berth.advance(start + DAY);
  await report("heartbeat", start + DAY - 1);
  await berth.settled();
  await untilReason(accountId, "spend_limit");
  const { limitUsd, reached } = await owner.setSpendLimit({ accountId });
  expect(limitUsd).toBeUndefined();
  expect(reached).toBe(true);
  await untilReason(accountId, "");
  expect(await owner.getSpendLimit({ accountId })).toMatchObject({ reached: false });
  expect(await berth.published(SuspensionChangedSchema, stranger)).toEqual([]);
});

test.each([
  [0.5, "422 validation_failed out_of_range"],
  [2_000_000, "422 validation_failed out_of_range"],
  [Number.NaN, "422 validation_failed out_of_range"],
  [10.001, "422 validation_failed not_cents"],
])("a limit of %f is %s", async (limitUsd, expected) => {
  const accountId = newId("acc");
  expect(await refused(berth.as(accountId).setSpendLimit({ accountId, limitUsd }))).toBe(expected);
  expect((await berth.as(accountId).getSpendLimit({ accountId })).limitUsd).toBeUndefined();
});
