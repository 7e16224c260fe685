import type { Tx } from "../../../kit/postgres/db.ts";
import { ratePeriod } from "../read-usage.ts";
import * as sql from "./sql.ts";

/** What is owed but found later than this after its period is not billed. */
export const MAX_DEBIT_SECONDS = 35 * 86_400;

/**
 * Corrects the frozen statements that usage since a time (s) belongs to: the difference becomes an adjustment, which
 * counts in the period that contains `now` (ms). The account must be locked.
 */
export async function correctStatements(
  tx: Tx,
  accountId: string,
  since: number,
  now: number,
): Promise<void> {
  const at = Math.floor(now / 1_000);
  for (const statement of await sql.listStatements(tx, accountId, since)) {
    const { rated } = await ratePeriod(tx, accountId, statement, at);
    const amount = rated.accrued - rated.allowance - BigInt(statement.owed);
    const unbilled = writtenOffPart(amount, statement, at);
    for (const [part, writtenOff] of [
      [unbilled, true],
      [amount - unbilled, false],
    ] as const) {
      const correction = { accountId, at, periodStart: statement.start, amount: part, writtenOff };
      if (part !== 0n) await sql.insertAdjustment(tx, { ...correction, reason: "late_usage" });
    }
  }
}

/** Returns how much of a correction is found too late to be billed, or takes back what never was billed. */
function writtenOffPart(amount: bigint, { end, writtenOff }: sql.CorrectedStatement, at: number): bigint {
  if (amount > 0n) return end < at - MAX_DEBIT_SECONDS ? amount : 0n;
  const takenBack = -BigInt(writtenOff);
  return amount > takenBack ? amount : takenBack;
}
