import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { UsageThresholdSchema } from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../../kit/events/outbox.ts";
import type { Logger } from "../../../kit/log.ts";
import { attempt, type Pool, type Tx, transaction } from "../../../kit/postgres/db.ts";
import { budgetOf, creditOf } from "../../pricing/compute.ts";
import { isBeyondAllowance } from "../../suspension/beyond-allowance.ts";
import { markBeyondAllowance } from "../../suspension/sql.ts";
import { findPeriod, type PeriodUsage, type PlannedPeriod, ratePeriod, type TierOf } from "../read-usage.ts";
import { checkSpendLimit } from "./spend-limit.ts";
import * as sql from "./sql.ts";
import { reachedThresholds, secondsToNext } from "./threshold.ts";

type Deps = {
  pool: Pool;
  log: Logger;
  tierOf: TierOf;
  now: () => number;
  /** Whether the quotas of plans apply: then a free account that runs more than the allowance has to choose a plan. */
  quotas: boolean;
};

/** After how long an account is looked at again that could not be: until then it holds up no other. */
const RETRY_SECONDS = 5 * 60;

/**
 * Compares what accounts use before their credit with their budgets and spend limits, and emits an event for a share that
 * is reached: once for a period, and of several at a time for the highest. Several replicas may do this at once.
 */
export async function alertSpend(deps: Deps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted && (await transaction(deps.pool, (tx) => alertOne(tx, deps))));
}

/** Looks at one account that is due. Returns false when none is. */
async function alertOne(tx: Tx, deps: Deps): Promise<boolean> {
  const at = Math.floor(deps.now() / 1_000);
  const accountId = await sql.takeAccountToAlert(tx, at);
  if (accountId === undefined) return false;
  const failure = await attempt(tx, () => alert(tx, deps, accountId, at));
  if (failure === undefined) return true;
  deps.log.error(
    { err: failure, accountId },
    "the spend alert of an account could not be sent; it will be retried",
  );
  await sql.setAlertAt(tx, accountId, at + RETRY_SECONDS);
  return true;
}

async function alert(tx: Tx, { tierOf, quotas }: Deps, accountId: string, at: number): Promise<void> {
  const period = await findPeriod(tx, tierOf, accountId, at);
  const usage = await ratePeriod(tx, accountId, period, at);
  const checkLimitAt = await checkSpendLimit(tx, accountId, period, usage, at);
  const { accrued, allowance } = usage.rated;
  if (quotas && !period.billed && isBeyondAllowance(period.tier, accrued - allowance))
    await markBeyondAllowance(tx, accountId);
  const checkBudgetAt = await checkBudget(tx, accountId, period, usage, at);
  await sql.setAlertAt(tx, accountId, Math.min(period.end, checkLimitAt, checkBudgetAt));
}

/** Reports shares of the budget. Returns when to look again. */
async function checkBudget(
  tx: Tx,
  accountId: string,
  period: PlannedPeriod,
  { rated, sums }: PeriodUsage,
  at: number,
): Promise<number> {
  const budget = budgetOf(period.tier);
  if (budget === undefined) return period.end;
  // What an earlier period owes, or corrects, says nothing about what runs in this one.
  const spent = rated.accrued - rated.allowance;
  const added = await sql.insertAlerts(tx, accountId, period.start, reachedThresholds(spent, budget), at);
  if (added.length > 0)
    await emit(tx, UsageThresholdSchema, accountId, {
      accountId,
      percent: Math.max(...added),
      periodStart: timestampFromMs(period.start * 1_000),
      accruedNanoUsd: spent,
      budgetNanoUsd: budget,
      creditNanoUsd: creditOf(period.tier),
    });
  return at + secondsToNext(spent, budget, sums);
}
