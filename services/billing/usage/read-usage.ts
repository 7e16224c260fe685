import type { Db } from "../../kit/postgres/db.ts";
import { creditOf, hasAllowance } from "../catalog/compute.ts";
import * as closing from "./closing/sql.ts";
import { type AccountPeriod, type Period, periodAt } from "./periods.ts";
import { type Rated, rate, type UsageSum } from "./rating.ts";
import { type SumRow, sumUsage, type Window } from "./sql.ts";

/** Returns the plan of an account. */
export type TierOf = (db: Db, accountId: string) => Promise<string>;

/** An interval of which nothing was heard for three heartbeats has ended when it was last seen. */
export const SILENT_SECONDS = 15 * 60;

/** A period of an account with the plan that applies to it. */
export type PlannedPeriod = AccountPeriod & { tier: string; billed: boolean };

/** Returns the period of an account that contains a time (s). */
export async function findPeriod(
  db: Db,
  tierOf: TierOf,
  accountId: string,
  at: number,
): Promise<PlannedPeriod> {
  const period = periodAt(await closing.listComputePeriods(db, accountId), at);
  return {
    ...period,
    tier: period.tier ?? (await tierOf(db, accountId)),
    billed: period.tier !== undefined,
  };
}

/** Returns a period as far as it has come at a time (s). */
export function windowOf({ start, end }: Period, now: number): Window {
  return { start, end, asOf: Math.min(now, end), heardSince: now - SILENT_SECONDS };
}

export type PeriodUsage = { rated: Rated; rows: SumRow[]; sums: UsageSum[]; adjustment: bigint };

/** Rates what an account used in a period until a time (s), with the corrections that count in it. */
export async function ratePeriod(
  db: Db,
  accountId: string,
  period: Period & { tier: string },
  now: number,
): Promise<PeriodUsage> {
  const window = windowOf(period, now);
  const rows = await sumUsage(db, accountId, window);
  const adjustment = await closing.sumAdjustments(db, accountId, period);
  const sums = rows.map(toSum);
  const rated = rate(sums, {
    eligible: hasAllowance(period.tier),
    credit: creditOf(period.tier),
    adjustment,
    secondsLeft: BigInt(period.end - window.asOf),
  });
  return { rated, rows, sums, adjustment };
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
