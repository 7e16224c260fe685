import type Stripe from "stripe";
import { collect } from "../collection/collect.ts";
import { endSubscription } from "../collection/subscription-status.ts";
import { finalize } from "../invoices/finalize.ts";
import type { World } from "../state/world.ts";
import { creditUnused, draftFinalInvoice } from "./end.ts";

/**
 * Ends a subscription at once. `invoice_now` invoices usage until now; that invoice is finalized, but not
 * collected, since an ended subscription collects nothing by itself. `prorate` credits prepaid time.
 */
export function cancelNow(
  world: World,
  subscription: Stripe.Subscription,
  { invoice_now, prorate, cancellation_details }: Stripe.SubscriptionCancelParams,
): Stripe.Subscription {
  setCancellationDetails(subscription, cancellation_details);
  if (prorate) creditUnused(world, subscription);
  const final = invoice_now ? draftFinalInvoice(world, subscription, false) : undefined;
  endSubscription(world, subscription, "cancellation_requested");
  if (final) {
    finalize(world, final);
    if (final.amount_due === 0) collect(world, final);
  }
  return subscription;
}

/** Records the customer's reason for canceling. */
export function setCancellationDetails(
  subscription: Stripe.Subscription,
  details: Stripe.SubscriptionCancelParams.CancellationDetails | undefined,
): void {
  const old = subscription.cancellation_details;
  subscription.cancellation_details = {
    reason: old?.reason ?? null,
    comment: details?.comment === undefined ? (old?.comment ?? null) : details.comment || null,
    feedback: details?.feedback === undefined ? (old?.feedback ?? null) : details.feedback || null,
    feedback_option: null,
  };
}

/** Ends all subscriptions of a customer at once; nothing more is invoiced. */
export function endAllOf(world: World, customer: string): void {
  for (const subscription of world.state.subscriptions.values())
    if (subscription.customer === customer && subscription.ended_at === null)
      cancelNow(world, subscription, {});
  for (const invoice of world.state.invoices.values())
    if (invoice.customer === customer) invoice.auto_advance = false;
}
