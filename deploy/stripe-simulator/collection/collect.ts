import type Stripe from "stripe";
import { finalize } from "../invoices/finalize.ts";
import type { World } from "../state/world.ts";
import { type ChargedBy, type ChargeResult, charge, methodOf, subscriptionOf } from "./charge.ts";
import { endSubscription, restoreSubscription, setStatus } from "./subscription-status.ts";

const DAY_SECONDS = 24 * 60 * 60;
/** Days until the next attempt, after each failure: four retries in 14 days, then the subscription ends. */
const RETRY_DAYS = [3, 4, 3, 4];

/** Charges an open invoice and updates its subscription by the result. */
export function collect(
  world: World,
  invoice: Stripe.Invoice,
  { method = methodOf(world, invoice), by = "schedule" }: { method?: string; by?: ChargedBy } = {},
): ChargeResult {
  const result = charge(world, invoice, method, by);
  const subscription = subscriptionOf(world, invoice);
  if (result === "paid") {
    if (subscription) restoreSubscription(world, subscription);
    return result;
  }
  const { retries, wait } = retryOf(invoice);
  invoice.next_payment_attempt = wait === undefined ? null : world.clock.now() + wait * DAY_SECONDS;
  if (result === "action_required") world.emit("invoice.payment_action_required", invoice);
  world.emit("invoice.payment_failed", invoice);
  world.emit("invoice.updated", invoice);
  if (!subscription || subscription.status === "canceled") return result;
  if (wait === undefined && retries.length > 0) endSubscription(world, subscription, "payment_failed");
  else if (subscription.status === "active") setStatus(world, subscription, "past_due");
  return result;
}

/** Returns the days until an open invoice is charged again: undefined after the last retry. */
function retryOf({ billing_reason, auto_advance, attempt_count }: Stripe.Invoice) {
  const retries = billing_reason === "subscription_create" || !auto_advance ? [] : RETRY_DAYS;
  return { retries, wait: retries[attempt_count - 1] };
}

/** Schedules the next automatic attempt of an open invoice whose payment failed. */
export function resumeCollection(world: World, invoice: Stripe.Invoice): void {
  const { wait } = retryOf(invoice);
  if (invoice.status !== "open" || invoice.next_payment_attempt !== null || wait === undefined) return;
  invoice.next_payment_attempt = world.clock.now() + wait * DAY_SECONDS;
}

/** Finalizes a draft and charges it at once. */
export function finalizeAndCollect(world: World, invoice: Stripe.Invoice): ChargeResult {
  finalize(world, invoice);
  return collect(world, invoice);
}
