import type { Pool } from "../../kit/postgres/db.ts";
import { conflict } from "../../kit/rpc/refusals.ts";
import { noSubscription } from "../subscription/refusals.ts";
import { findSubscription, type SubscriptionRow } from "../subscription/sql.ts";
import { LIVE } from "../subscription/statuses.ts";
import { type CancellationKind, findCancellation } from "./sql.ts";

/**
 * Returns the account's subscription. Throws 404 subscription_not_found, and 409 subscription_canceling when it ends with
 * its period or is being canceled.
 */
export async function requireCancelable(pool: Pool, accountId: string): Promise<SubscriptionRow> {
  const found = await findSubscription(pool, accountId);
  if (!found || !LIVE.includes(found.status)) throw noSubscription();
  const cancellation = await findCancellation(pool, found.id);
  const isUnderWay = cancellation !== undefined && cancellation.step !== "uncertain";
  if (found.cancelAtPeriodEnd || isUnderWay) throw canceling();
  return found;
}

export const canceling = () =>
  conflict("subscription_canceling", "The subscription is canceled already. Read it to see when it ends.");

/**
 * Returns how a subscription ends: with its period (`at_period_end`), or at once, with or without a refund
 * (docs/billing.md#canceling). Pure.
 */
export function endingOf({
  status,
  cadence,
}: Pick<SubscriptionRow, "status" | "cadence">): "at_period_end" | CancellationKind {
  if (status !== "active" && status !== "trialing") return "unpaid";
  return cadence === "annual" ? "annual" : "at_period_end";
}
