import type { Tx } from "../../../kit/postgres/db.ts";
import { ratePeriod } from "../read-usage.ts";
import * as sql from "./sql.ts";

/** What is owed for usage that is found later than this after its period is not asked for. */
const MAX_DEBIT_SECONDS = 35 * 86_400;

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
    if (amount === 0n) continue;
    const writtenOff = amount > 0n && statement.end < at - MAX_DEBIT_SECONDS;
    const periodStart = statement.start;
    await sql.insertAdjustment(tx, { accountId, at, periodStart, amount, reason: "late_usage", writtenOff });
  }
}
