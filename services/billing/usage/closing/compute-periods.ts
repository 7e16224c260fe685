import type { Db, Tx } from "../../../kit/postgres/db.ts";
import { lockAccount, scheduleAlert } from "../ledger/sql.ts";
import { type ComputePeriod, monthOf } from "../periods.ts";
import { correctOwed } from "./owed.ts";
import * as sql from "./sql.ts";

/**
 * Records a period of an account's compute item, or updates its end: its plan is that at its start; times in seconds, as the
 * payment provider has them. The period before it, of the calendar or of a compute item, ends where it begins; usage before the first is not
 * billed. One that was unknown while it ran is billed all the same. Safe to repeat. A second that was billed is not
 * billed again.
 */
export async function putComputePeriod(tx: Tx, accountId: string, period: ComputePeriod): Promise<void> {
  const frozenUntil = await lockAccount(tx, accountId, monthOf(period.start).start);
  const known = (await sql.listComputePeriods(tx, accountId)).find(({ start }) => start === period.start);
  if (known && (known.end <= frozenUntil || known.end === period.end)) return;
  const start = Math.max(period.start, await sql.billedUntil(tx, accountId));
  if (start >= period.end) return;
  const put = { ...period, start, ...(known && { tier: known.tier }) };
  await sql.upsertComputePeriod(tx, accountId, put);
  await correctOwed(tx, accountId, put);
  await sql.setFrozen(tx, accountId, Math.min(frozenUntil, start), 0);
  await scheduleAlert(tx, accountId);
}

/**
 * Returns what the period of a compute item that ends at a time (s) came to, net of the allowance and before the plan's
 * credit, in whole cents; undefined until it is frozen, 45 minutes after its end.
 */
export function frozenAmount(db: Db, accountId: string, end: number): Promise<number | undefined> {
  return sql.findDueCents(db, accountId, end);
}
