import type { Db } from "../../kit/postgres/db.ts";
import { creditOf, hasAllowance } from "../pricing/compute.ts";
import { owedUnclosed } from "./closing/owed.ts";
import { sumAdjustments } from "./closing/owed-sql.ts";
import { listComputePeriods } from "./closing/sql.ts";
import { type AccountPeriod, type Period, periodAt } from "./periods.ts";
import { type Rated, rate, type UsageSum } from "./rating.ts";
import type { SumRow } from "./sql.ts";
import { listSums } from "./sums.ts";

/** Returns the plan of an account. */
export type TierOf = (db: Db, accountId: string) => Promise<string>;

/** A period of an account with the plan that applies to it. */
export type PlannedPeriod = AccountPeriod & { tier: string; billed: boolean };

/** Returns the period of an account that contains a time (s). */
export async function findPeriod(
  db: Db,
  tierOf: TierOf,
  accountId: string,
  at: number,
): Promise<PlannedPeriod> {
  const period = periodAt(await listComputePeriods(db, accountId), at);
  return {
    ...period,
    tier: period.tier ?? (await tierOf(db, accountId)),
    billed: period.tier !== undefined,
  };
}

export type PeriodUsage = { rated: Rated; rows: SumRow[]; sums: UsageSum[]; adjustment: bigint };

/**
 * Rates what an account used in a period until a time (s), with the corrections that count in it, and what is owed of the
 * time before it.
 */
export async function ratePeriod(
  db: Db,
  accountId: string,
  period: Period & { tier: string; billed?: boolean },
  now: number,
): Promise<PeriodUsage> {
  const { rows, sums } = await listSums(db, accountId, period, now);
  const { billed = true } = period;
  const corrections = await sumAdjustments(db, accountId, { ...period, billed });
  const adjustment = corrections + (billed ? await owedUnclosed(db, accountId, period.start, now) : 0n);
  const rated = rate(sums, {
    eligible: hasAllowance(period.tier),
    credit: creditOf(period.tier),
    adjustment,
    secondsLeft: BigInt(period.end - Math.min(now, period.end)),
  });
  return { rated, rows, sums, adjustment };
}
