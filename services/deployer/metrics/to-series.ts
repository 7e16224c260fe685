import { LATENCY_BOUNDS, type Measurable, type Points } from "../terms/measurement.ts";
import type { MinuteRow } from "./sql.ts";

type Kind = {
  name: string;
  unit: "cores" | "bytes" | "count" | "milliseconds";
  /** What has to be measured for it. */
  of: Measurable;
  /** Returns the value of the minutes of a step; undefined when none of them has it. */
  value: (minutes: MinuteRow[]) => number | undefined;
};

type Amount = Exclude<keyof MinuteRow, "at" | "statuses" | "latencies">;

const measured = (minutes: MinuteRow[], member: Amount) =>
  minutes.map((minute) => minute[member]).filter((value) => value !== null);
const highest = (member: Amount) => (minutes: MinuteRow[]) => {
  const values = measured(minutes, member);
  return values.length > 0 ? Math.max(...values) : undefined;
};
const total = (member: Amount) => (minutes: MinuteRow[]) => {
  const values = measured(minutes, member);
  return values.length > 0 ? values.reduce((sum, value) => sum + value, 0) : undefined;
};
const status = (digit: number): Kind => ({
  name: `status_${digit}xx`,
  unit: "count",
  of: "requests",
  value: (minutes) => {
    const counts = sumOf(minutes, "statuses");
    return counts && (counts[digit - 2] ?? 0);
  },
});
const latency = (percent: number): Kind => ({
  name: `latency_p${percent}`,
  unit: "milliseconds",
  of: "requests",
  value: (minutes) => quantile(sumOf(minutes, "latencies") ?? [], percent / 100),
});

/** All series, in the order in which they are shown (docs/metrics.md#series). */
export const KINDS: Kind[] = [
  { name: "cpu", unit: "cores", of: "cpu", value: cores },
  { name: "memory", unit: "bytes", of: "memory", value: highest("memory") },
  { name: "replicas", unit: "count", of: "server", value: highest("replicas") },
  { name: "restarts", unit: "count", of: "server", value: total("restarts") },
  { name: "storage_used", unit: "bytes", of: "storage", value: highest("storageUsed") },
  // Not measured here: only Prometheus may have it.
  { name: "storage_size", unit: "bytes", of: "capacity", value: () => undefined },
  { name: "connections", unit: "count", of: "connections", value: highest("connections") },
  { name: "network_in", unit: "bytes", of: "network", value: total("networkIn") },
  { name: "network_out", unit: "bytes", of: "network", value: total("networkOut") },
  {
    name: "requests",
    unit: "count",
    of: "requests",
    value: (minutes) => sumOf(minutes, "statuses")?.reduce((sum, count) => sum + count, 0),
  },
  ...[2, 3, 4, 5].map(status),
  ...[50, 95, 99].map(latency),
];

/** Returns the points of each series, by name, from minutes in order of time; pure. */
export function toSeries(minutes: MinuteRow[], stepMs: number): Map<string, Points> {
  const steps = [...Map.groupBy(minutes, ({ at }) => Math.floor(at / stepMs) * stepMs)];
  return new Map(
    KINDS.map(({ name, value }) => {
      const points = steps.map(([at, own]) => ({ at, value: value(own) }));
      return [name, points.filter((point): point is Points[number] => point.value !== undefined)];
    }),
  );
}

function cores(minutes: MinuteRow[]): number | undefined {
  const [used, covered] = [total("cpuMs")(minutes), total("coveredMs")(minutes)];
  return used !== undefined && covered ? used / covered : undefined;
}

function sumOf(minutes: MinuteRow[], member: "statuses" | "latencies"): number[] | undefined {
  const lists = minutes.map((minute) => minute[member]).filter((list) => list !== null);
  if (lists.length === 0) return undefined;
  // Zeros at the end are left out of what is stored.
  const length = Math.max(...lists.map((list) => list.length));
  return Array.from({ length }, (_, at) => lists.reduce((sum, list) => sum + (list[at] ?? 0), 0));
}

/**
 * Returns a quantile in ms of what was counted in buckets, by the share of its bucket that is below it; undefined when
 * nothing was counted. What took longer than the highest bound counts as that.
 */
export function quantile(counts: number[], share: number): number | undefined {
  const wanted = counts.reduce((sum, count) => sum + count, 0) * share;
  if (wanted === 0) return undefined;
  let below = 0;
  for (const [at, count] of counts.entries()) {
    const [lower = 0, upper] = [LATENCY_BOUNDS[at - 1], LATENCY_BOUNDS[at]];
    if (below + count >= wanted && count > 0)
      return upper === undefined ? lower : lower + ((wanted - below) / count) * (upper - lower);
    below += count;
  }
  return LATENCY_BOUNDS.at(-1);
}
