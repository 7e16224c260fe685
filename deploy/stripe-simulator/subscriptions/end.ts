import type Stripe from "stripe";
import { subscriptionOf } from "../invoices/charge.ts";
import { createDraft } from "../invoices/draft.ts";
import { addInvoiceItem, toPendingLines } from "../invoices/invoice-items.ts";
import { isMetered, toItemLine } from "../invoices/lines.ts";
import { idOf, type World } from "../state/world.ts";
import { toProration } from "./prorate.ts";

/** Ends a subscription now. Its finalized invoices stay open, but are not collected any more without being asked to. */
export function endSubscription(
  world: World,
  subscription: Stripe.Subscription,
  reason: Stripe.Subscription.CancellationDetails.Reason,
): void {
  const now = world.clock.now();
  subscription.status = "canceled";
  subscription.canceled_at ??= now;
  subscription.ended_at = now;
  subscription.cancellation_details = {
    comment: null,
    feedback: null,
    feedback_option: null,
    ...subscription.cancellation_details,
    reason,
  };
  for (const invoice of world.state.invoices.values()) {
    if (subscriptionOf(world, invoice)?.id !== subscription.id || invoice.status !== "open") continue;
    invoice.auto_advance = false;
    invoice.next_payment_attempt = null;
  }
  world.emit("customer.subscription.deleted", subscription);
}

/** Returns the draft of what is not invoiced yet: use until now, and what waits for an invoice; none if there is nothing. */
export function draftFinalInvoice(
  world: World,
  subscription: Stripe.Subscription,
  autoAdvance: boolean,
): Stripe.Invoice | undefined {
  const now = world.clock.now();
  const customer = idOf(subscription.customer);
  const metered = subscription.items.data.filter(({ price }) => isMetered(price));
  const lines = [
    ...metered.map((item) => toItemLine(world, item, { start: item.current_period_start, end: now })),
    ...toPendingLines(world, customer, subscription.id),
  ];
  if (lines.length === 0) return undefined;
  const start = Math.min(...lines.map(({ period }) => period.start), now);
  return createDraft(world, {
    customer,
    subscription,
    reason: autoAdvance ? "subscription_cycle" : "subscription_update",
    lines,
    period: { start, end: now },
    autoAdvance,
  });
}

/** Credits the unused time of what was paid ahead: items for the next invoice, never cash. */
export function creditUnused(world: World, subscription: Stripe.Subscription): void {
  for (const item of subscription.items.data) {
    const line = toProration(world, item, { price: item.price, quantity: item.quantity ?? 1 }, -1);
    if (line)
      addInvoiceItem(world, { customer: idOf(subscription.customer), subscription: subscription.id, line });
  }
}
