import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { UsageThresholdSchema } from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { newId } from "../../../kit/ids.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { startUsage, type TestUsage } from "../testing.ts";
import { reachedThresholds, secondsToNext } from "./threshold.ts";

const DAY = 86_400;
const USD = 10n ** 9n;

let berth: TestUsage;
beforeAll(async () => {
  berth = await startUsage();
});
afterAll(() => berth?.stop());

const alerts = async (accountId: string) =>
  (await berth.published(UsageThresholdSchema, accountId)).map(({ percent }) => percent);

test("owners are told of 75, 90 and 100 percent of the plan's credit, each once in a period", async () => {
  const accountId = newId("acc");
  const start = berth.clock.now;
  await berth.computePeriod(accountId, start, start + 30 * DAY);
  // $1.87920 a day beyond the allowance: $7.50 are reached after 3.99 days, $9 after 4.79, $10 after 5.32.
  const service = berth.service(accountId);
  const { report } = berth.interval(service, { size: "large" });
  await report("started", start);
  for (const [day, expected] of [
    [3.9, []],
    [4.1, [75]],
    [4.7, [75]],
    [4.9, [75, 90]],
    [9, [75, 90, 100]],
    [12, [75, 90, 100]],
  ] as [number, number[]][]) {
    await berth.advance(start + day * DAY);
    await report("heartbeat", start + day * DAY - 60);
    await berth.settled();
    await berth.advance(start + day * DAY + 1);
    await eventually(
      `${expected} at day ${day}`,
      async () => (await alerts(accountId)).length >= expected.length,
    );
    expect(await alerts(accountId)).toEqual(expected);
  }
  const [first] = await berth.published(UsageThresholdSchema, accountId);
  expect(first).toMatchObject({ accountId, percent: 75, budgetNanoUsd: 10n * USD, creditNanoUsd: 10n * USD });
  expect(first!.accruedNanoUsd).toBeGreaterThanOrEqual((75n * USD) / 10n);
  expect(first!.periodStart?.seconds).toBe(BigInt(start));
});

test("of several shares that are reached at once the highest is told; what runs on is looked at by itself", async () => {
  const accountId = newId("acc");
  const start = berth.clock.now;
  const { report } = berth.interval(berth.service(accountId), { size: "large", replicas: 20 });
  await report("started", start - 2 * DAY);
  await report("stopped", start - DAY);
  await berth.settled();
  await eventually("it is told", async () => (await alerts(accountId)).length > 0);
  expect(await alerts(accountId)).toEqual([100]);
});

test("an account without a budget hears nothing", async () => {
  const accountId = newId("acc");
  await berth.pool.query("insert into accounts (id, tier) values ($1, 'enterprise')", [accountId]);
  const { report } = berth.interval(berth.service(accountId), { size: "large", replicas: 20 });
  await report("started", berth.clock.now - 5 * DAY);
  await report("stopped", berth.clock.now - DAY);
  await berth.settled();
  await berth.advance(berth.clock.now + 1);
  expect(await alerts(accountId)).toEqual([]);
});

test("no look comes after a threshold is reached, whatever runs", () => {
  const running = fc.record({
    rate: fc.bigInt({ min: 1n, max: 30_000n }),
    running: fc.bigInt({ min: 0n, max: 50n }),
  });
  const whole = { serviceId: "svc", type: "web", seconds: 0n, replicaSeconds: 0n };
  fc.assert(
    fc.property(
      fc.bigInt({ min: 0n, max: 60n * USD }),
      fc.bigInt({ min: USD, max: 50n * USD }),
      fc.array(running, { maxLength: 9 }),
      (due, budget, runs) => {
        const seconds = secondsToNext(
          due,
          budget,
          runs.map((one) => ({ ...whole, ...one })),
        );
        expect(seconds).toBeGreaterThanOrEqual(60);
        expect(seconds).toBeLessThanOrEqual(DAY);
        if (seconds === 60) return;
        const perSecond = runs.reduce((sum, one) => sum + one.rate * one.running, 0n);
        const before = due + perSecond * BigInt(seconds - 1);
        expect(reachedThresholds(before, budget)).toEqual(reachedThresholds(due, budget));
      },
    ),
  );
});
