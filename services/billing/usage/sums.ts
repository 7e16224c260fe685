import type { Db } from "../../kit/postgres/db.ts";
import type { Period } from "./periods.ts";
import type { UsageSum } from "./rating.ts";
import { type SumRow, sumUsage, type Window } from "./sql.ts";

/** An interval of which nothing was heard for three heartbeats has ended when it was last seen. */
export const SILENT_SECONDS = 15 * 60;

/** Returns a period as far as it has come at a time (s). */
export function windowOf({ start, end }: Period, now: number): Window {
  return { start, end, asOf: Math.min(now, end), heardSince: now - SILENT_SECONDS };
}

export type Sums = { rows: SumRow[]; sums: UsageSum[] };

/** Adds up what an account used in a period until a time (s). */
export async function listSums(db: Db, accountId: string, period: Period, now: number): Promise<Sums> {
  const rows = await sumUsage(db, accountId, windowOf(period, now));
  return { rows, sums: rows.map(toSum) };
}

function toSum({ serviceId, type, rate, seconds, replicaSeconds, running }: SumRow): UsageSum {
  return {
    serviceId,
    type,
    rate: BigInt(rate),
    seconds: BigInt(seconds),
    replicaSeconds: BigInt(replicaSeconds),
    running: BigInt(running),
  };
}
