import { expect, test } from "vitest";
import { daysOf } from "../../../clients/console/screens/billing/days.ts";

const period = {
  periodStart: "2026-11-10T18:00:00Z",
  periodEnd: "2026-12-10T18:00:00Z",
  asOf: "2026-11-13T06:00:00.500Z",
};
const HOUR = 3_600;
const line = { serviceId: "svc_1", replicas: 2, nanoUsdPerSecond: 1_000_000 };
const perHour = (2 * 1_000_000 * HOUR) / 1e9;

test("what ran is divided among the days, by UTC, in which it ran, and adds up to what the API counts", () => {
  const days = daysOf(
    [
      // Until noon of the 12th, since the period began.
      { ...line, endedAt: "2026-11-12T12:00:00Z", seconds: 42 * HOUR },
      // Still running, since midnight.
      { ...line, serviceId: "svc_2", seconds: 6 * HOUR },
    ],
    period,
  );
  expect(days).toHaveLength(31);
  expect(days.map(({ day }) => day.slice(0, 10)).slice(0, 4)).toEqual([
    "2026-11-10",
    "2026-11-11",
    "2026-11-12",
    "2026-11-13",
  ]);
  const hours = (service: string) =>
    days.slice(0, 5).map(({ byService }) => Math.round((byService.get(service) ?? 0) / perHour));
  expect(hours("svc_1")).toEqual([6, 24, 12, 0, 0]);
  expect(hours("svc_2")).toEqual([0, 0, 0, 6, 0]);
  const sum = days.reduce((all, { total }) => all + total, 0);
  expect(sum).toBeCloseTo(48 * perHour, 6);
});

test("a period without anything has its days, and one that is over no more than them", () => {
  const empty = daysOf([], {
    ...period,
    periodStart: "2026-11-01T00:00:00Z",
    periodEnd: "2026-12-01T00:00:00Z",
  });
  expect(empty).toHaveLength(30);
  expect(empty.every(({ total }) => total === 0)).toBe(true);
  const late = daysOf([{ ...line, seconds: 10 * HOUR }], { ...period, asOf: "2027-01-01T00:00:00Z" });
  expect(late.at(-1)?.byService.get("svc_1")).toBeCloseTo(10 * perHour, 6);
});
