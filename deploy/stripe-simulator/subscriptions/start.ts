import type Stripe from "stripe";
import { isMetered } from "../catalog/prices.ts";
import { collect } from "../collection/collect.ts";
import { createDraft } from "../invoices/draft.ts";
import { finalize } from "../invoices/finalize.ts";
import { toPendingLines } from "../invoices/invoice-items.ts";
import { toItemLine } from "../invoices/lines.ts";
import { idOf, type World } from "../state/world.ts";
import { dropSpentDiscounts } from "./discounts.ts";

/** How the first invoice is charged: as any other, so that a card that fails later succeeds, or not yet. */
export type FirstCharge = "as_any" | "succeeds" | "later";

/** Invoices and charges the first period of a new subscription, which is active once that is paid. */
export function startSubscription(
  world: World,
  subscription: Stripe.Subscription,
  first: FirstCharge,
): Stripe.Invoice {
  const now = world.clock.now();
  const customer = idOf(subscription.customer);
  const licensed = subscription.items.data.filter(({ price }) => !isMetered(price));
  world.emit("customer.subscription.created", subscription);
  const invoice = createDraft(world, {
    customer,
    subscription,
    reason: "subscription_create",
    lines: [
      ...toPendingLines(world, customer, subscription.id),
      ...licensed.map((item) =>
        toItemLine(world, item, { start: item.current_period_start, end: item.current_period_end }),
      ),
    ],
    period: { start: now, end: now },
    autoAdvance: true,
  });
  finalize(world, invoice);
  if (first !== "later") collect(world, invoice, first === "succeeds" ? { by: "checkout" } : {});
  dropSpentDiscounts(world, subscription, invoice);
  return invoice;
}
