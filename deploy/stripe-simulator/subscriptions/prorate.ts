import type Stripe from "stripe";
import { amountOf, productOf } from "../catalog/prices.ts";
import { isMetered, type LineInput } from "../invoices/lines.ts";
import type { World } from "../state/world.ts";

type Content = { price: Stripe.Price; quantity: number };

/** Returns what the rest of an item's period costs (1) or gives back (-1), by the second; none for metered prices. */
export function toProration(
  world: World,
  item: Stripe.SubscriptionItem,
  { price, quantity }: Content,
  sign: 1 | -1,
): LineInput | undefined {
  if (isMetered(price)) return undefined;
  const now = world.clock.now();
  const { current_period_start: start, current_period_end: end } = item;
  const name = world.state.products.get(productOf(price))?.name ?? "Subscription";
  const amount = sign * Math.round((amountOf(price, quantity) * (end - now)) / (end - start));
  if (amount === 0) return undefined;
  const day = new Date(now * 1000).toISOString().slice(0, 10);
  return {
    description: `${sign > 0 ? "Remaining" : "Unused"} time on ${quantity} × ${name} after ${day}`,
    price,
    quantity,
    amount,
    period: { start: now, end },
    discounts: item.discounts.map(String),
    proration: true,
    subscription: item.subscription,
    item: item.id,
  };
}
