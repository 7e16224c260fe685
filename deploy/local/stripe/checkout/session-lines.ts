import type Stripe from "stripe";
import { amountOf, productOf } from "../catalog/prices.ts";
import { allocate } from "../invoices/totals.ts";
import type { State } from "../state/state.ts";
import type { World } from "../state/world.ts";

/** Returns the lines of what a checkout session sells, with its discount. */
export function toSessionLines({ state }: Pick<World, "state">, session: string): Stripe.LineItem[] {
  const order = state.orders.get(session);
  if (!order) return [];
  const lines = order.lines.map(({ id, price: priceId, quantity }) => {
    const price = state.prices.get(priceId)!;
    return { id, price, quantity: quantity ?? null, subtotal: amountOf(price, quantity ?? 0) };
  });
  const discounts = discountsOf(state, order.discount?.coupon, lines);
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

type Priced = { price: Stripe.Price; subtotal: number };

function discountsOf({ coupons }: State, couponId: string | undefined, lines: Priced[]): number[] {
  const coupon = coupons.get(couponId ?? "");
  if (!coupon) return lines.map(() => 0);
  const products = coupon.applies_to?.products;
  const eligible = lines.map(({ price, subtotal }) =>
    products === undefined || products.includes(productOf(price)) ? subtotal : 0,
  );
  if (coupon.percent_off === null) return allocate(coupon.amount_off ?? 0, eligible);
  return eligible.map((subtotal) => Math.round((subtotal * coupon.percent_off!) / 100));
}

/** Returns what a checkout session costs. */
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
