import type Stripe from "stripe";
import { createDraft } from "../invoices/draft.ts";
import { toFinalLines } from "../invoices/final-lines.ts";
import { addInvoiceItem } from "../invoices/invoice-items.ts";
import { toProration } from "../invoices/prorate.ts";
import { idOf, type World } from "../state/world.ts";

/** Drafts the final invoice: usage until now and pending items. Returns undefined when there is nothing to invoice. */
export function draftFinalInvoice(
  world: World,
  subscription: Stripe.Subscription,
  autoAdvance: boolean,
): Stripe.Invoice | undefined {
  const now = world.clock.now();
  const customer = idOf(subscription.customer);
  const lines = toFinalLines(world, subscription);
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

/** Credits prepaid, unused time with items for the next invoice, never as cash. */
export function creditUnused(world: World, subscription: Stripe.Subscription): void {
  for (const item of subscription.items.data) {
    const line = toProration(world, item, { price: item.price, quantity: item.quantity ?? 1 }, -1);
    if (line)
      addInvoiceItem(world, { customer: idOf(subscription.customer), subscription: subscription.id, line });
  }
}
