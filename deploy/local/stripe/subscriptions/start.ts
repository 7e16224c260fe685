import type Stripe from "stripe";
import type { ChargeResult } from "../invoices/charge.ts";
import { createDraft } from "../invoices/draft.ts";
import { toPendingLines } from "../invoices/invoice-items.ts";
import { isMetered, toItemLine } from "../invoices/lines.ts";
import { idOf, type World } from "../state/world.ts";
import { finalizeAndCollect } from "./collection.ts";
import { dropSpentDiscounts } from "./discounts.ts";

/** Invoices the first period of a new subscription and charges it; the subscription is active once that is paid. */
export function startSubscription(
  world: World,
  subscription: Stripe.Subscription,
  first: boolean,
): ChargeResult {
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
  const result = finalizeAndCollect(world, invoice, first);
  dropSpentDiscounts(world, subscription, invoice);
  return result;
}
