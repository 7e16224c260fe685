import type Stripe from "stripe";
import { isMetered } from "../catalog/prices.ts";
import { idOf, type World } from "../state/world.ts";
import { toPendingLines } from "./invoice-items.ts";
import { type LineInput, toItemLine } from "./lines.ts";

/** Returns the lines of the invoice of a subscription that ends now: usage until now, and pending items. */
export function toFinalLines(world: World, subscription: Stripe.Subscription): LineInput[] {
  const end = world.clock.now();
  const metered = subscription.items.data.filter(({ price }) => isMetered(price));
  return [
    ...metered.map((item) => toItemLine(world, item, { start: item.current_period_start, end })),
    ...toPendingLines(world, idOf(subscription.customer), subscription.id),
  ];
}
