import type { UsageSum } from "../rating.ts";

/** The shares of the budget that owners are notified of, in percent. */
export const THRESHOLDS = [75, 90, 100];

/** The shares of a spend limit that owners are notified of. */
export const LIMIT_THRESHOLDS = [50, 80, 100];

const MIN_WAIT = 60n;
const MAX_WAIT = 86_400n;

/** Returns the thresholds that an amount has reached. */
export function reachedThresholds(due: bigint, budget: bigint, thresholds = THRESHOLDS): number[] {
  return thresholds.filter((percent) => due * 100n >= budget * BigInt(percent));
}

/**
 * Returns how many seconds can pass before the next threshold may be reached while all runs on: never too many, as the
 * allowance is left out. At most a day, at least a minute.
 */
export function secondsToNext(
  due: bigint,
  budget: bigint,
  sums: UsageSum[],
  thresholds = THRESHOLDS,
): number {
  const next = thresholds.find((percent) => due * 100n < budget * BigInt(percent));
  const perSecond = sums.reduce((sum, { rate, running }) => sum + rate * running, 0n);
  if (next === undefined || perSecond === 0n) return Number(MAX_WAIT);
  const seconds = ((budget * BigInt(next)) / 100n - due) / perSecond;
  if (seconds < MIN_WAIT) return Number(MIN_WAIT);
  return Number(seconds > MAX_WAIT ? MAX_WAIT : seconds);
}
