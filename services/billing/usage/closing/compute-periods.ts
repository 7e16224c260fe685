import type { Db, Tx } from "../../../kit/postgres/db.ts";
import { expectAlert, lockAccount } from "../ledger/sql.ts";
import { type ComputePeriod, monthOf } from "../periods.ts";
import * as sql from "./sql.ts";

/**
 * Begins a period of an account's compute item, or records its end and plan anew; times in seconds, as the payment
 * provider has them. The period before it, of the calendar or of a compute item, ends where it begins; usage before the
 * first is not billed. Safe to repeat. A second that was billed is not billed again.
 */
export async function startComputePeriod(tx: Tx, accountId: string, period: ComputePeriod): Promise<void> {
  const frozenUntil = await lockAccount(tx, accountId, monthOf(period.start).start);
  const known = (await sql.listComputePeriods(tx, accountId)).find(({ start }) => start === period.start);
  if (known && known.end <= frozenUntil) return;
  const start = Math.max(period.start, await sql.billedUntil(tx, accountId));
  if (start >= period.end) return;
  await sql.upsertComputePeriod(tx, accountId, { ...period, start });
  await sql.setFrozen(tx, accountId, frozenUntil, 0);
  await expectAlert(tx, accountId);
}

/** Ends the period of an account's compute item at a time (s): its subscription has ended. Safe to repeat. */
export async function endComputePeriod(tx: Tx, accountId: string, at: number): Promise<void> {
  const frozenUntil = await lockAccount(tx, accountId, monthOf(at).start);
  if (at <= frozenUntil) return;
  await sql.cutComputePeriod(tx, accountId, at);
  await sql.setFrozen(tx, accountId, frozenUntil, 0);
}

/**
 * Returns what a period of a compute item came to, net of the allowance and before the plan's credit, in whole cents;
 * undefined until it is frozen, 45 minutes after its end. `start` is when it began (s).
 */
export function frozenAmount(db: Db, accountId: string, start: number): Promise<number | undefined> {
  return sql.findDueCents(db, accountId, start);
}
