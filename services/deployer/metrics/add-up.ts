import type { Counter, Counts, Measurement } from "../terms/measurement.ts";

/** Up to where the counters of a service were counted. Times in ms. */
export type Counted = { measuredAt: number; counters: Counter[] };

/** What a service used since it was measured before. */
export type Used = {
  serviceId: string;
  cpuMs?: number;
  coveredMs?: number;
  memory?: number;
  storageUsed?: number;
  connections?: number;
  replicas?: number;
  restarts?: number;
  networkIn?: number;
  networkOut?: number;
  statuses?: number[];
  latencies?: number[];
};

/** A source that began this long before the first measurement of a service is counted from its beginning. */
const FIRST_MS = 120_000;

/**
 * Returns what a service used since it was measured before, and up to where its counters are counted now; pure. A source
 * that is new counts from its beginning, unless it began before the last measurement: then nobody knows since when.
 */
export function addUp(
  { serviceId, replicas, memory, cores, counters, ...amounts }: Measurement,
  before: Counted | undefined,
  now: number,
): { used: Used; counted: Counted } {
  const known = new Map(before?.counters.map((one) => [one.source, one]));
  const newSince = before?.measuredAt ?? now - FIRST_MS;
  const increases: Counts[] = [];
  const next: Counter[] = [];
  for (const counter of counters) {
    const last = known.get(counter.source) ?? (counter.since >= newSince ? undefined : counter);
    const { source, since } = counter;
    increases.push(combine(counter, last, (value, old) => Math.max(0, value - old)));
    // A measurement that was overtaken by a later one takes nothing back.
    next.push({ source, since, ...combine(counter, last, Math.max) });
  }
  const sum = increases.reduce((one, other) => combine(one, other, (a, b) => a + b), {});
  const { cpuMs, restarts = 0, ...rest } = sum;
  const start =
    before?.measuredAt ?? Math.min(now, ...counters.map(({ since }) => Math.max(since, newSince)));
  const coveredMs = Math.max(0, now - start);
  const usedMs = cores === undefined ? cpuMs : cores * coveredMs;
  return {
    used: {
      ...{ serviceId, ...rest, ...amounts },
      ...(replicas !== undefined && { replicas, restarts }),
      ...(memory !== undefined && { memory }),
      ...(usedMs !== undefined && coveredMs > 0 && { cpuMs: usedMs, coveredMs }),
    },
    counted: { measuredAt: now, counters: next },
  };
}

type Combining = (value: number, other: number) => number;

/** Returns the counts that one or both have, combined. */
function combine(one: Counts, other: Counts | undefined, by: Combining): Counts {
  const combined: Counts = {};
  for (const name of ["cpuMs", "restarts", "networkIn", "networkOut"] as const)
    if (one[name] !== undefined || other?.[name] !== undefined)
      combined[name] = by(one[name] ?? 0, other?.[name] ?? 0);
  for (const name of ["statuses", "latencies"] as const) {
    const [values, others] = [one[name], other?.[name]];
    if (!values && !others) continue;
    const length = Math.max(values?.length ?? 0, others?.length ?? 0);
    const list = Array.from({ length }, (_, at) => by(values?.[at] ?? 0, others?.[at] ?? 0));
    // Zeros at the end are left out: most services are idle, or fast.
    combined[name] = list.slice(0, list.findLastIndex((count) => count !== 0) + 1);
  }
  return combined;
}
