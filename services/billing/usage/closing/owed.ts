import type { Db, Tx } from "../../../kit/postgres/db.ts";
import { type ComputePeriod, type Period, periodAt } from "../periods.ts";
import { rate } from "../rating.ts";
import { listSums } from "../sums.ts";
import { findOwedFrom, listOwedBy, sumOwed } from "./owed-sql.ts";
import * as sql from "./sql.ts";

// What runs beyond the allowance after a plan has ended is owed with the next subscription
// (docs/billing.md#owed-compute). Amounts are in nano-USD, times in seconds.

/** Returns what a period that is not billed comes to owe by a time. */
async function owedOf(db: Db, accountId: string, period: Period, now: number): Promise<bigint> {
  const start = await findOwedFrom(db, accountId, period);
  if (start === undefined || start >= period.end) return 0n;
  const { sums } = await listSums(db, accountId, { ...period, start }, now);
  const { due } = rate(sums, { eligible: true, credit: 0n, adjustment: 0n, secondsLeft: 0n });
  return due;
}

/** Records what a period owes that was closed as not billed. */
export async function recordOwed(tx: Tx, accountId: string, period: Period, now: number): Promise<void> {
  const amount = await owedOf(tx, accountId, period, now);
  const { start, end } = period;
  if (amount !== 0n)
    await sql.insertAdjustment(tx, { accountId, at: end, periodStart: start, amount, reason: "grace" });
}

/**
 * Takes back what was recorded as owed for a time that a subscription bills, which was not known then. Safe to repeat.
 */
export async function correctOwed(tx: Tx, accountId: string, billed: ComputePeriod): Promise<void> {
  for (const { owed, ...closed } of await listOwedBy(tx, accountId, billed)) {
    const rest = { start: closed.start, end: Math.max(closed.start, billed.start) };
    const left = rest.end > rest.start ? await owedOf(tx, accountId, rest, rest.end) : 0n;
    const amount = left - BigInt(owed);
    const correction = { accountId, at: billed.start, periodStart: closed.start, amount };
    if (amount !== 0n) await sql.insertAdjustment(tx, { ...correction, reason: "grace" });
  }
}

/**
 * Returns what periods that are not billed and not closed yet owe, as far as they lie before a time; what an earlier period
 * that is billed has already, is left out.
 */
export async function owedUnclosed(db: Db, accountId: string, until: number, now: number): Promise<bigint> {
  const closedUntil = (await sql.findFrozenUntil(db, accountId)) ?? until;
  if (closedUntil >= until) return 0n;
  const billed = await sql.listComputePeriods(db, accountId);
  let from = Math.max(closedUntil, ...billed.map(({ end }) => end).filter((end) => end <= until));
  let owed = 0n;
  while (from < until) {
    const { tier, end } = periodAt(billed, from);
    if (tier === undefined)
      owed += await owedOf(db, accountId, { start: from, end: Math.min(end, until) }, now);
    from = end;
  }
  return owed;
}

/** Returns what an account owes with its next subscription by a time; 0 while it has one. */
export async function owedNow(db: Db, accountId: string, now: number): Promise<bigint> {
  const billed = await sql.listComputePeriods(db, accountId);
  if (periodAt(billed, now).tier !== undefined) return 0n;
  return (await sumOwed(db, accountId, now)) + (await owedUnclosed(db, accountId, now, now));
}
