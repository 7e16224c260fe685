import { expect, test } from "vitest";
import type { Counter, Measurement } from "../terms/measurement.ts";
import { addUp } from "./add-up.ts";

const START = 1_000_000;
const measured = (counters: Counter[], more: Partial<Measurement> = {}): Measurement => ({
  ...{ serviceId: "svc_1", replicas: 1, counters, ...more },
});
const cpu = (source: string, cpuMs: number, since = START): Counter => ({ source, since, cpuMs });

test("what a replica used counts once: from its beginning at first, then what was added", () => {
  const first = addUp(measured([cpu("a", 500)]), undefined, START + 10_000);
  expect(first.used).toMatchObject({ cpuMs: 500, coveredMs: 10_000, restarts: 0 });
  const second = addUp(measured([cpu("a", 800)]), first.counted, START + 40_000);
  expect(second.used).toMatchObject({ cpuMs: 300, coveredMs: 30_000 });
  expect(addUp(measured([cpu("a", 800)]), second.counted, START + 70_000).used).toMatchObject({ cpuMs: 0 });
});

test("a replica that began since the last measurement counts wholly, and an older unknown one from now on", () => {
  const before = { measuredAt: START, counters: [cpu("a", 500, START - 1)] };
  const next = addUp(
    measured([cpu("new", 70, START + 1), cpu("old", 9_000, START - 1)]),
    before,
    START + 30_000,
  );
  expect(next.used).toMatchObject({ cpuMs: 70, coveredMs: 30_000 });
  const after = addUp(measured([cpu("old", 9_100, START - 1)]), next.counted, START + 60_000);
  expect(after.used).toMatchObject({ cpuMs: 100 });
});

test("a measurement that a later one overtook neither takes back nor counts again", () => {
  const before = { measuredAt: START, counters: [cpu("a", 500)] };
  const late = addUp(measured([cpu("a", 400)]), before, START + 30_000);
  expect(late.used).toMatchObject({ cpuMs: 0 });
  expect(addUp(measured([cpu("a", 510)]), late.counted, START + 60_000).used).toMatchObject({ cpuMs: 10 });
});

test("cores that are measured and not counted hold for the time since the last measurement", () => {
  const before = { measuredAt: START, counters: [] };
  const { used } = addUp(measured([], { cores: 0.5, memory: 7 }), before, START + 30_000);
  expect(used).toMatchObject({ cpuMs: 15_000, coveredMs: 30_000, memory: 7 });
});

test("requests are added by status and latency, and restarts are those since the last measurement", () => {
  const requests = { source: "r", since: START, statuses: [3, 0, 1, 0], latencies: [4, 0] };
  const restarts = { source: "g", since: START, restarts: 2 };
  const first = addUp(measured([requests, restarts]), undefined, START + 30_000);
  expect(first.used).toMatchObject({ statuses: [3, 0, 1], latencies: [4], restarts: 2 });
  const more = { ...requests, statuses: [5, 0, 1, 1], latencies: [6, 1] };
  const second = addUp(measured([more, restarts]), first.counted, START + 60_000);
  expect(second.used).toMatchObject({ statuses: [2, 0, 0, 1], latencies: [2, 1], restarts: 0 });
  const none = addUp(measured([more, restarts]), second.counted, START + 90_000);
  expect(none.used).toMatchObject({ statuses: [], latencies: [] });
});
