import type { ComputeUsageLine } from "../../../typescript/src/index.ts";

const DAY_MS = 86_400_000;
const NANO = 1e9;

export type UsageDay = { day: string; total: number; byService: Map<string, number> };

type Line = Pick<ComputeUsageLine, "serviceId" | "endedAt" | "seconds" | "replicas" | "nanoUsdPerSecond">;
type Period = { periodStart: string; periodEnd: string; asOf: string };

/** Returns what each service cost on each day of a period, by UTC. What runs counts until `asOf`. */
export function daysOf(lines: Line[], { periodStart, periodEnd, asOf }: Period): UsageDay[] {
  const start = Date.parse(periodStart);
  const first = Math.floor(start / DAY_MS);
  const count = Math.max(1, Math.ceil(Date.parse(periodEnd) / DAY_MS) - first);
  const days = Array.from({ length: count }, (_, n) => ({
    day: new Date((first + n) * DAY_MS).toISOString(),
    total: 0,
    byService: new Map<string, number>(),
  }));
  for (const { serviceId, endedAt, seconds, replicas, nanoUsdPerSecond } of lines) {
    const end = Math.min(Date.parse(endedAt ?? asOf), Date.parse(periodEnd));
    // The API counts whole seconds: the days add up to what it counts.
    let at = Math.max(start, end - seconds * 1_000);
    while (at < end) {
      const index = Math.floor(at / DAY_MS) - first;
      const until = Math.min(end, (first + index + 1) * DAY_MS);
      const one = days[index];
      if (!one) break;
      const usd = (((until - at) / 1_000) * replicas * nanoUsdPerSecond) / NANO;
      one.total += usd;
      one.byService.set(serviceId, (one.byService.get(serviceId) ?? 0) + usd);
      at = until;
    }
  }
  return days;
}
