import type Stripe from "stripe";
import { toCouponShares } from "../catalog/coupon-shares.ts";
import { amountOf, productOf } from "../catalog/prices.ts";
import type { World } from "../state/world.ts";

/** Returns the line items of a checkout session, with its discount. */
export function toSessionLines({ state }: Pick<World, "state">, session: string): Stripe.LineItem[] {
  const order = state.orders.get(session);
  if (!order) return [];
  const lines = order.lines.map(({ id, price: priceId, quantity }) => {
    const price = state.prices.get(priceId)!;
    return { id, price, quantity: quantity ?? null, subtotal: amountOf(price, quantity ?? 0) };
  });
  const coupon = state.coupons.get(order.discount?.coupon ?? "");
  const discounts = coupon
    ? toCouponShares(
        coupon,
        lines.map(({ price, subtotal }) => ({ product: productOf(price), amount: subtotal })),
      )
    : lines.map(() => 0);
  return lines.map(
    ({ id, price, quantity, subtotal }, index) =>
      ({
        id,
        object: "item",
        adjustable_quantity: null,
        amount_discount: discounts[index]!,
        amount_subtotal: subtotal,
        amount_tax: 0,
        amount_total: subtotal - discounts[index]!,
        currency: "usd",
        description: state.products.get(productOf(price))?.name ?? null,
        metadata: {},
        price,
        quantity,
      }) satisfies Stripe.LineItem,
  );
}

/** Returns the totals of a checkout session. */
export function toSessionTotals(world: Pick<World, "state">, session: string) {
  const lines = toSessionLines(world, session);
  const sum = (value: (line: Stripe.LineItem) => number) =>
    lines.reduce((total, line) => total + value(line), 0);
  return {
    subtotal: sum((line) => line.amount_subtotal),
    discount: sum((line) => line.amount_discount),
    total: sum((line) => line.amount_total),
  };
}
