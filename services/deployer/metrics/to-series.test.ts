import { expect, test } from "vitest";
import { LATENCY_BOUNDS } from "../terms/measurement.ts";
import { toSpan } from "./read.ts";
import type { MinuteRow } from "./sql.ts";
import { quantile, toSeries } from "./to-series.ts";

const NOW = Date.parse("2026-11-20T10:00:30Z");
const minute = (at: number, more: Partial<MinuteRow> = {}): MinuteRow => ({
  ...{ at, cpuMs: null, coveredMs: null, memory: null, replicas: 1, restarts: 0 },
  ...{ storageUsed: null, connections: null },
  ...{ networkIn: null, networkOut: null, statuses: null, latencies: null, ...more },
});

test("minutes become steps: CPU is a mean, memory and replicas the highest, the rest a sum; what is missing has no point", () => {
  const rows = [
    minute(0, { cpuMs: 6_000, coveredMs: 60_000, memory: 5, statuses: [1, 0, 0, 0] }),
    minute(60_000, {
      cpuMs: 0,
      coveredMs: 60_000,
      memory: 9,
      replicas: 3,
      restarts: 1,
      statuses: [2],
    }),
    minute(240_000, { restarts: 2, statuses: [] }),
  ];
  const series = Object.fromEntries(toSeries(rows, 120_000));
  expect(series.cpu).toEqual([{ at: 0, value: 0.05 }]);
  expect(series.memory).toEqual([{ at: 0, value: 9 }]);
  expect(series.replicas).toEqual([
    { at: 0, value: 3 },
    { at: 240_000, value: 1 },
  ]);
  expect(series.restarts?.map(({ value }) => value)).toEqual([1, 2]);
  const requests = [3, 0].map((value, n) => ({ at: n * 240_000, value }));
  expect([series.requests, series.status_2xx]).toEqual([requests, requests]);
  expect(series.status_5xx?.map(({ value }) => value)).toEqual([0, 0]);
  expect(series.network_in).toEqual([]);
  expect(series.latency_p95).toEqual([]);
});

test("a quantile lies in the bucket of its request, and never above the highest bound", () => {
  const counts = LATENCY_BOUNDS.map(() => 0).concat(0);
  expect(quantile(counts, 0.5)).toBeUndefined();
  counts[LATENCY_BOUNDS.indexOf(10)] = 90;
  counts[LATENCY_BOUNDS.indexOf(100)] = 10;
  expect(quantile(counts, 0.5)).toBeGreaterThan(7);
  expect(quantile(counts, 0.5)).toBeLessThan(10);
  expect(quantile(counts, 0.95)).toBe(85);
  counts[LATENCY_BOUNDS.length] = 1_000;
  expect(quantile(counts, 0.99)).toBe(30_000);
});

test("a span is the last hour by default, begins with a whole step, and ends at what is kept", () => {
  expect(toSpan({}, NOW)).toEqual({ from: Date.parse("2026-11-20T09:00:00Z"), to: NOW, stepMs: 60_000 });
  const day = toSpan({ from: 0, to: NOW + 9_000_000, step: 3_600 }, NOW);
  expect(day).toEqual({ from: Date.parse("2026-11-19T10:00:00Z"), to: NOW, stepMs: 3_600_000 });
  expect(() => toSpan({ from: NOW }, NOW)).toThrow("before");
  expect(() => toSpan({ to: NOW - 25 * 3_600_000 }, NOW)).toThrow("24 hours");
});
