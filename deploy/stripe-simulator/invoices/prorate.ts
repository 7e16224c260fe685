import type Stripe from "stripe";
import { amountOf, isMetered, productOf } from "../catalog/prices.ts";
import type { World } from "../state/world.ts";
import type { LineInput } from "./lines.ts";

export type Content = { price: Stripe.Price; quantity: number };

/**
 * Returns the charge (1) or the credit (-1) for the rest of an item's period from a time on, by the second; none for metered
 * prices.
 */
export function toProration(
  world: World,
  item: Stripe.SubscriptionItem,
  { price, quantity }: Content,
  sign: 1 | -1,
  at = world.clock.now(),
): LineInput | undefined {
  if (isMetered(price)) return undefined;
  const { current_period_start: start, current_period_end: end } = item;
  const name = world.state.products.get(productOf(price))?.name ?? "Subscription";
  const amount = sign * Math.round((amountOf(price, quantity) * (end - at)) / (end - start));
  if (amount === 0) return undefined;
  const day = new Date(at * 1000).toISOString().slice(0, 10);
  return {
    description: `${sign > 0 ? "Remaining" : "Unused"} time on ${quantity} × ${name} after ${day}`,
    price,
    quantity,
    amount,
    period: { start: at, end },
    discounts: item.discounts.map(String),
    proration: true,
    subscription: item.subscription,
    item: item.id,
  };
}
