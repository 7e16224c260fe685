import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { UsageThresholdSchema } from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../../kit/events/outbox.ts";
import type { Logger } from "../../../kit/log.ts";
import { attempt, type Pool, type Tx, transaction } from "../../../kit/postgres/db.ts";
import { budgetOf, creditOf } from "../../catalog/compute.ts";
import { findPeriod, ratePeriod, type TierOf } from "../read-usage.ts";
import * as sql from "./sql.ts";
import { reached, secondsToNext } from "./threshold.ts";

type Deps = { pool: Pool; log: Logger; tierOf: TierOf; now: () => number };

/** After how long an account is looked at again that could not be: until then it holds up no other. */
const RETRY_SECONDS = 5 * 60;

/**
 * Compares what accounts owe before their credit with their budgets, and emits an event for a share that is reached:
 * once for a period, and of several at a time for the highest. Several replicas may do this at once.
 */
export async function alertSpend(deps: Deps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted && (await transaction(deps.pool, (tx) => alertOne(tx, deps))));
}

/** Looks at one account that is due. Returns false when none is. */
async function alertOne(tx: Tx, deps: Deps): Promise<boolean> {
  const at = Math.floor(deps.now() / 1_000);
  const accountId = await sql.takeAccountToAlert(tx, at);
  if (accountId === undefined) return false;
  const failure = await attempt(tx, () => alert(tx, deps.tierOf, accountId, at));
  if (failure === undefined) return true;
  deps.log.error({ err: failure, accountId }, "the spend of an account cannot be told; it is tried again");
  await sql.setAlertAt(tx, accountId, at + RETRY_SECONDS);
  return true;
}

async function alert(tx: Tx, tierOf: TierOf, accountId: string, at: number): Promise<void> {
  const period = await findPeriod(tx, tierOf, accountId, at);
  const { rated, sums } = await ratePeriod(tx, accountId, period, at);
  const budget = budgetOf(period.tier);
  if (budget === undefined) return void (await sql.setAlertAt(tx, accountId, period.end));
  const added = await sql.insertAlerts(tx, accountId, period.start, reached(rated.due, budget), at);
  if (added.length > 0)
    await emit(tx, UsageThresholdSchema, accountId, {
      accountId,
      percent: Math.max(...added),
      periodStart: timestampFromMs(period.start * 1_000),
      accruedNanoUsd: rated.due,
      budgetNanoUsd: budget,
      creditNanoUsd: creditOf(period.tier),
    });
  await sql.setAlertAt(tx, accountId, Math.min(period.end, at + secondsToNext(rated.due, budget, sums)));
}
