import fc from "fast-check";
import { expect, test } from "vitest";
import { type ComputePeriod, type Period, periodAt } from "./periods.ts";

const seconds = (iso: string) => Date.parse(iso) / 1_000;
const shown = ({ start, end }: Period) =>
  [start, end].map((at) => new Date(at * 1_000).toISOString().slice(0, 19));
const monthAt = (iso: string) => shown(periodAt([], seconds(iso)));

test("without a compute item the period is the calendar month, UTC", () => {
  const march = ["2026-03-01T00:00:00", "2026-04-01T00:00:00"];
  expect(monthAt("2026-03-01T00:00:00Z")).toEqual(march);
  expect(monthAt("2026-03-31T23:59:59Z")).toEqual(march);
  expect(monthAt("2026-04-01T00:00:00Z")).not.toEqual(march);
  expect(monthAt("2026-04-01T01:00:00+02:00")).toEqual(march);
  expect(monthAt("2026-12-31T23:59:59Z")).toEqual(["2026-12-01T00:00:00", "2027-01-01T00:00:00"]);
});

test("a leap day is a day of February in leap years, and in no others", () => {
  expect(monthAt("2028-02-29T12:00:00Z")).toEqual(["2028-02-01T00:00:00", "2028-03-01T00:00:00"]);
  expect(periodAt([], seconds("2028-02-01T00:00:00Z"))).toMatchObject({
    end: seconds("2028-02-01") + 29 * 86_400,
  });
  expect(periodAt([], seconds("2027-02-28T23:59:59Z"))).toMatchObject({
    end: seconds("2027-02-01") + 28 * 86_400,
  });
});

test("the compute item has its own periods, and the calendar's end and begin at them", () => {
  const [first, second] = ["2026-01-31T10:00:00Z", "2026-02-28T10:00:00Z"].map(seconds) as [number, number];
  const last = seconds("2026-03-31T10:00:00Z");
  const billed = [
    { start: first, end: second, tier: "pro" },
    { start: second, end: last, tier: "team" },
  ];
  expect(periodAt(billed, first - 1)).toEqual({ start: seconds("2026-01-01"), end: first });
  expect(periodAt(billed, first)).toEqual(billed[0]);
  expect(periodAt(billed, second - 1)).toEqual(billed[0]);
  expect(periodAt(billed, second)).toEqual(billed[1]);
  expect(periodAt(billed, last)).toEqual({ start: last, end: seconds("2026-04-01") });
  expect(periodAt(billed, seconds("2026-04-01"))).toEqual({
    start: seconds("2026-04-01"),
    end: seconds("2026-05-01"),
  });
});

test("periods follow each other without a gap, whatever was subscribed and canceled when", () => {
  const stretch = fc.record({ free: fc.nat(90 * 86_400), paid: fc.integer({ min: 1, max: 31 * 86_400 }) });
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 2 ** 32 }),
      fc.array(stretch, { maxLength: 6 }),
      (from, stretches) => {
        let at = from;
        const billed = stretches.map(({ free, paid }): ComputePeriod => {
          const start = at + free;
          at = start + paid;
          return { start, end: at, tier: "pro" };
        });
        const seen: Period[] = [];
        for (let time = from; time <= at + 86_400; time = seen.at(-1)!.end) {
          const period = periodAt(billed, time);
          expect(period.start).toBe(seen.length === 0 ? period.start : time);
          expect(period.end).toBeGreaterThan(time);
          for (const inside of [time, Math.floor((time + period.end) / 2), period.end - 1])
            expect(periodAt(billed, inside)).toEqual(period);
          seen.push(period);
        }
        for (const one of billed) expect(seen).toContainEqual(one);
      },
    ),
  );
});
