import { timestampDate } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { UsageThresholdSchema } from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { newId } from "../../../kit/ids.ts";
import { holdCommits } from "../../../kit/testing/hold-commits.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { startUsage, type TestUsage } from "../testing.ts";
import { frozenAmount } from "./compute-periods.ts";
import { FREEZE_AFTER_SECONDS } from "./freeze.ts";

const HOUR = 3_600;
const DAY = 24 * HOUR;
const LARGE = 24_000e-9;
const NANO = 2_250e-9;
const second = (iso: string) => Date.parse(iso) / 1_000;

let berth: TestUsage;
beforeAll(async () => {
  berth = await startUsage();
});
afterAll(() => berth?.stop());

type Row = { period: string; billed: boolean; tier: string; cents: number; lines: { cents: string }[] };

async function statements(accountId: string): Promise<Row[]> {
  const { rows } = await berth.pool.query(
    `select to_char(started_at at time zone 'utc', 'YYYY-MM-DD HH24:MI') as period, billed, tier, due_cents as cents, lines
     from period_statements where account_id = $1 order by started_at`,
    [accountId],
  );
  return rows;
}

const frozen = (accountId: string, count: number) =>
  eventually(`${count} statements`, async () => {
    const rows = await statements(accountId);
    return rows.length === count && rows;
  });

const cents = (usd: number) => Math.round(usd * 100);

test("a period is frozen once, 45 minutes after its end, and its lines add up to its cents", async () => {
  const accountId = newId("acc");
  const [start, end] = [second("2027-04-10T09:30:00Z"), second("2027-05-10T09:30:00Z")];
  await berth.advance(start + HOUR);
  const runs = ["web", "web", "worker", "redis"].map((type) =>
    berth.interval(berth.service(accountId, type), { size: "large" }),
  );
  for (const { report } of runs) {
    await report("started", start - DAY);
    await report("heartbeat", start + HOUR);
  }
  await berth.settled();
  await berth.computePeriod(accountId, start, end);
  await berth.advance(end + FREEZE_AFTER_SECONDS - 1);
  for (const [index, { report }] of runs.entries()) await report("stopped", end - index * 7_777);
  await berth.settled();
  expect((await statements(accountId)).map(({ billed }) => billed)).toEqual([false]);
  expect(await frozenAmount(berth.pool, accountId, end)).toBeUndefined();
  await berth.advance(end + FREEZE_AFTER_SECONDS);
  const [calendar, item] = await frozen(accountId, 2);
  expect(calendar).toMatchObject({ period: "2027-04-01 00:00", billed: false, tier: "free" });
  const ran = [0, 1, 2, 3].map((index) => end - start - index * 7_777);
  // The allowance covers one web service, the worker and the addon.
  const free = [ran[0]!, ran[2]!].map((seconds) => seconds * NANO).concat(ran[3]! * 2_310e-9);
  const accrued = ran.map((seconds, index) => seconds * (index === 3 ? LARGE + 60e-9 : LARGE));
  const total = cents(accrued.reduce((a, b) => a + b) - free.reduce((a, b) => a + b));
  expect(item).toMatchObject({ period: "2027-04-10 09:30", billed: true, tier: "pro", cents: total });
  expect(item!.lines.reduce((sum, line) => sum + Number(line.cents), 0)).toBe(total);
  expect(await frozenAmount(berth.pool, accountId, end)).toBe(total);
});

test("the calendar's period ends as a free one where the compute item's begins, and begins again when it ends", async () => {
  const accountId = newId("acc");
  const month = second("2027-06-01T00:00:00Z");
  const [start, end, canceled] = [month + 9 * DAY, month + 39 * DAY, month + 20 * DAY];
  await berth.advance(start);
  const shown = async () => {
    const { periodStart, periodEnd, credit } = await berth.usage(accountId);
    return [
      ...[periodStart, periodEnd].map((at) => timestampDate(at!).getTime() / 1_000),
      credit!.includedUsd,
    ];
  };
  const { report } = berth.interval(berth.service(accountId), { size: "large", replicas: 2 });
  await report("started", month);
  await report("heartbeat", start);
  await berth.settled();
  expect(await shown()).toEqual([month, month + 30 * DAY, 0]);
  expect((await berth.usage(accountId)).accruedUsd).toBeGreaterThan(0);
  await berth.computePeriod(accountId, start, end);
  await berth.computePeriod(accountId, start, end);
  expect(await shown()).toEqual([start, end, 10]);
  expect((await berth.usage(accountId)).accruedUsd).toBe(0);
  // The credit is that of the plan at the start of the period.
  await berth.computePeriod(accountId, start, end, "team");
  expect(await shown()).toEqual([start, end, 10]);
  await berth.advance(canceled);
  await report("stopped", canceled);
  await berth.settled();
  await berth.computePeriod(accountId, start, canceled, "team");
  expect(await shown()).toEqual([canceled, month + 30 * DAY, 0]);
  await berth.advance(canceled + FREEZE_AFTER_SECONDS);
  const found = await frozen(accountId, 2);
  expect(found.map(({ billed, tier }) => [billed, tier])).toEqual([
    [false, "free"],
    [true, "pro"],
  ]);
  const seconds = canceled - start;
  expect(await frozenAmount(berth.pool, accountId, canceled)).toBe(cents(seconds * (2 * LARGE - NANO)));
});

test("a period that is told of after the months in it were frozen is billed all the same, once", async () => {
  const accountId = newId("acc");
  const [start, end] = [second("2027-06-20T00:00:00Z"), second("2027-07-20T00:00:00Z")];
  await berth.advance(start);
  const { report } = berth.interval(berth.service(accountId), { size: "large" });
  await report("started", start);
  for (const month of ["2027-07-01", "2027-08-01", "2027-09-01"].map(second)) {
    await berth.advance(month);
    await report("heartbeat", month);
    await berth.settled();
    await berth.advance(month + FREEZE_AFTER_SECONDS);
  }
  const shown = async () =>
    (await statements(accountId)).map(({ period, billed }) => `${period.slice(0, 10)} ${billed}`);
  const calendar = ["2027-06-01 false", "2027-07-01 false", "2027-08-01 false"];
  expect(await shown()).toEqual(calendar);
  await berth.computePeriod(accountId, start, end);
  const due = cents((end - start) * (LARGE - NANO));
  await eventually("it is frozen", async () => (await frozenAmount(berth.pool, accountId, end)) === due);
  await berth.computePeriod(accountId, start, end);
  const all = [...calendar, "2027-06-20 true", "2027-07-20 false"].sort();
  await berth.advance(berth.clock.now);
  expect(await shown()).toEqual(all);
});

test("what is found after the freeze corrects the next period; the statement stays as it is", async () => {
  const accountId = newId("acc");
  const [start, end] = [second("2027-08-05T00:00:00Z"), second("2027-09-05T00:00:00Z")];
  await berth.advance(start + HOUR);
  await berth.computePeriod(accountId, start, end);
  await berth.computePeriod(accountId, end, end + 30 * DAY);
  const service = berth.service(accountId);
  const first = berth.interval(service, { size: "large" });
  await berth.advance(start + 20 * DAY);
  await first.report("started", start);
  await first.report("heartbeat", start + 10 * DAY);
  await berth.settled();
  await berth.advance(end + FREEZE_AFTER_SECONDS);
  const statement = (await frozen(accountId, 1))[0];
  expect(statement!.cents).toBe(cents(10 * DAY * (LARGE - NANO)));
  // It ran on for two days, which nobody heard of: owed.
  await first.report("stopped", start + 12 * DAY);
  await berth.settled();
  const owed = 2 * DAY * (LARGE - NANO);
  expect((await berth.usage(accountId)).adjustmentUsd).toBeCloseTo(owed, 4);
  expect(await statements(accountId)).toEqual([statement]);
  // A later heartbeat of an interval that had stopped changes nothing; an earlier stop does not exist.
  await first.report("heartbeat", start + 13 * DAY);
  // Another interval began in the middle: the first ended there, and what was asked twice is returned.
  const second_ = berth.interval(service, { size: "nano" });
  await second_.report("started", start + 5 * DAY);
  await second_.report("stopped", start + 12 * DAY);
  await berth.settled();
  const shown = await berth.usage(accountId);
  const returned = 5 * DAY * (LARGE - NANO) - 10 * DAY * (LARGE - NANO);
  expect(shown.adjustmentUsd).toBeCloseTo(returned, 4);
  expect(shown.netUsd).toBe(0);
  // The next period owes less than is returned: the rest is carried on.
  await berth.advance(end + 30 * DAY + FREEZE_AFTER_SECONDS);
  const [, next] = await frozen(accountId, 2);
  expect(next!.cents).toBe(0);
  expect(next!.lines.reduce((sum, line) => sum + Number(line.cents), 0)).toBe(0);
  const { rows } = await berth.pool.query(
    "select sum(amount)::bigint as amount from adjustments where account_id = $1 and reason = 'carried'",
    [accountId],
  );
  expect(Number(rows[0].amount) / 1e9).toBeCloseTo(returned, 6);
});

test("what is to be returned while nothing is billed is returned in the next period that is, once", async () => {
  const accountId = newId("acc");
  const [start, end] = [second("2027-10-03T00:00:00Z"), second("2027-10-13T00:00:00Z")];
  await berth.advance(start);
  await berth.computePeriod(accountId, start, end);
  const service = berth.service(accountId);
  const { report } = berth.interval(service, { size: "large" });
  await report("started", start);
  await berth.advance(end);
  await report("stopped", end);
  await berth.settled();
  await berth.advance(end + FREEZE_AFTER_SECONDS);
  const other = berth.interval(service);
  await other.report("started", start + DAY);
  await other.report("stopped", end);
  await berth.settled();
  const returned = -9 * DAY * (LARGE - NANO);
  const adjusted = async () => (await berth.usage(accountId)).adjustmentUsd;
  expect(await adjusted()).toBeCloseTo(returned, 4);
  const again = end + 60 * DAY;
  await berth.advance(again);
  expect(await adjusted()).toBeCloseTo(returned, 4);
  await berth.computePeriod(accountId, again, again + DAY);
  expect(await adjusted()).toBeCloseTo(returned, 4);
  await berth.advance(again + 2 * DAY);
  expect(await adjusted()).toBeCloseTo(returned, 4);
  const { rows } = await berth.pool.query(
    "select adjustment::bigint from period_statements where account_id = $1 and billed order by started_at",
    [accountId],
  );
  expect(rows.map(({ adjustment }) => Number(adjustment) / 1e9)).toEqual([0, returned]);
});

test("what is owed but found 35 days after its period is written off; what is to be returned never is", async () => {
  const accountId = newId("acc");
  const [start, end] = [second("2027-11-01T00:00:00Z"), second("2027-12-01T00:00:00Z")];
  await berth.advance(start + HOUR);
  await berth.computePeriod(accountId, start, end);
  await berth.computePeriod(accountId, end, end + 90 * DAY);
  const service = berth.service(accountId);
  const { report } = berth.interval(service, { size: "large" });
  await berth.advance(start + 20 * DAY);
  await report("started", start);
  await report("heartbeat", start + 10 * DAY);
  await berth.settled();
  await berth.advance(end + 36 * DAY);
  await frozen(accountId, 1);
  await report("heartbeat", start + 12 * DAY);
  await berth.settled();
  expect((await berth.usage(accountId)).adjustmentUsd).toBe(0);
  // Of the two days that were written off, one did not run: nothing was paid for it.
  const other = berth.interval(service, { size: "nano" });
  await other.report("started", start + 11 * DAY);
  await other.report("stopped", start + 12 * DAY);
  await berth.settled();
  expect((await berth.usage(accountId)).adjustmentUsd).toBe(0);
  const third = berth.interval(service, { size: "nano" });
  await third.report("started", start + 9 * DAY);
  await third.report("stopped", start + 11 * DAY);
  await berth.settled();
  expect((await berth.usage(accountId)).adjustmentUsd).toBeCloseTo(-DAY * (LARGE - NANO), 4);
});

test("the lines of a frozen period are listed, page by page, each once", async () => {
  const accountId = newId("acc");
  const month = second("2028-02-01T00:00:00Z");
  await berth.advance(month + 20 * DAY);
  const services = [berth.service(accountId), berth.service(accountId, "worker")];
  for (let day = 0; day < 9; day++) {
    const { report } = berth.interval(services[day % 2]!);
    await report("started", month + day * DAY);
    await report("stopped", month + day * DAY + HOUR);
  }
  await berth.settled();
  await berth.advance(month + 40 * DAY);
  expect((await berth.lines(accountId)).data).toEqual([]);
  const at = { seconds: BigInt(month + DAY), nanos: 0 };
  const starts: number[] = [];
  for (let cursor: string | undefined; cursor !== ""; ) {
    const { data, page } = await berth.lines(accountId, { at, limit: 2, cursor });
    starts.push(...data.map(({ startedAt }) => Number(startedAt!.seconds)));
    cursor = page!.nextCursor;
  }
  expect(starts).toEqual([8, 7, 6, 5, 4, 3, 2, 1, 0].map((day) => month + day * DAY));
  const { data } = await berth.lines(accountId, { at, serviceId: services[1]!.serviceId });
  expect(data).toHaveLength(4);
});

test("whatever dies at its commit, an event counts once, a period is frozen once and a share is told once", async () => {
  const accountId = newId("acc");
  const [start, end] = [second("2028-05-01T06:00:00Z"), second("2028-06-01T06:00:00Z")];
  await berth.advance(start + HOUR);
  await berth.computePeriod(accountId, start, end);
  const { report } = berth.interval(berth.service(accountId), { size: "large" });
  const mine = `new.account_id = '${accountId}'`;
  const losing = async (table: string, work: () => Promise<unknown>) => {
    const held = await holdCommits(berth, "insert", table, mine);
    await work();
    await held.reached();
    await held.release("lost");
  };
  await losing("usage_segments", () => report("started", start));
  await berth.settled();
  await losing("usage_alerts", async () => {
    berth.clock.now = start + 4 * DAY;
    await report("heartbeat", start + 4 * DAY);
  });
  const told = () => berth.published(UsageThresholdSchema, accountId);
  await eventually("the share is told", async () => (await told()).length > 0);
  await report("stopped", start + 4 * DAY);
  await berth.settled();
  await losing("period_statements", async () => {
    berth.clock.now = end + FREEZE_AFTER_SECONDS;
  });
  const rows = await frozen(accountId, 1);
  expect(rows[0]!.cents).toBe(cents(4 * DAY * (LARGE - NANO)));
  await berth.advance(end + FREEZE_AFTER_SECONDS + 1);
  expect([(await statements(accountId)).length, (await told()).length]).toEqual([1, 1]);
});
