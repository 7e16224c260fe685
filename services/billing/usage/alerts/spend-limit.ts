import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { SpendLimitReachedSchema } from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../../kit/events/outbox.ts";
import type { Tx } from "../../../kit/postgres/db.ts";
import { NANO_PER_CENT } from "../../money/nano-usd.ts";
import { creditOf } from "../../pricing/compute.ts";
import { findSpendLimit, insertLimitAlerts } from "../../suspension/limits-sql.ts";
import { setLimitUntil } from "../../suspension/sql.ts";
import type { PeriodUsage, PlannedPeriod } from "../read-usage.ts";
import { LIMIT_THRESHOLDS, reachedThresholds, secondsToNext } from "./threshold.ts";

/** Returns what compute of a period costs beyond the allowance and the plan's credit, without corrections of others. */
export function spendOf(
  { tier }: Pick<PlannedPeriod, "tier">,
  { rated }: Pick<PeriodUsage, "rated">,
): bigint {
  const spend = rated.accrued - rated.allowance - creditOf(tier);
  return spend > 0n ? spend : 0n;
}

/**
 * Compares what compute of a period costs with the limit that an owner set, reports shares of it, and records whether it
 * is reached: then services beyond the allowance are stopped until the period ends. Returns when to look again (s).
 */
export async function checkSpendLimit(
  tx: Tx,
  accountId: string,
  period: PlannedPeriod,
  usage: PeriodUsage,
  at: number,
): Promise<number> {
  const limitCents = await findSpendLimit(tx, accountId);
  if (limitCents === undefined) {
    await setLimitUntil(tx, accountId, undefined);
    return period.end;
  }
  const limit = BigInt(limitCents) * NANO_PER_CENT;
  const spent = spendOf(period, usage);
  const reached = reachedThresholds(spent, limit, LIMIT_THRESHOLDS);
  await setLimitUntil(tx, accountId, spent >= limit ? period.end : undefined);
  const added = await insertLimitAlerts(tx, accountId, { start: period.start, limitCents }, reached, at);
  if (added.length > 0)
    await emit(tx, SpendLimitReachedSchema, accountId, {
      ...{ accountId, percent: Math.max(...added), limitCents: BigInt(limitCents), spentNanoUsd: spent },
      periodStart: timestampFromMs(period.start * 1_000),
      periodEnd: timestampFromMs(period.end * 1_000),
    });
  const beforeCredit = usage.rated.accrued - usage.rated.allowance - creditOf(period.tier);
  return at + secondsToNext(beforeCredit, limit, usage.sums, LIMIT_THRESHOLDS);
}
