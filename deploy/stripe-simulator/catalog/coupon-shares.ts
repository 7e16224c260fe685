import type Stripe from "stripe";

/** Returns the discount of a coupon on each amount: 0 on products to which it does not apply. */
export function toCouponShares(
  coupon: Stripe.Coupon,
  lines: { product: string; amount: number }[],
): number[] {
  const products = coupon.applies_to?.products;
  const eligible = lines.map(({ product, amount }) => ((products?.includes(product) ?? true) ? amount : 0));
  if (coupon.percent_off === null) return allocate(coupon.amount_off ?? 0, eligible);
  return eligible.map((amount) => Math.round((amount * coupon.percent_off!) / 100));
}

/** Splits an amount in proportion to parts, no share larger than its part; shares are whole and add up to the amount. */
function allocate(amount: number, parts: number[]): number[] {
  const positive = parts.map((part) => Math.max(0, part));
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  const total = sum(positive);
  const shared = Math.min(amount, total);
  if (total === 0) return parts.map(() => 0);
  const exact = positive.map((part) => (part * shared) / total);
  const shares = exact.map(Math.floor);
  const byRest = exact.map((value, index) => ({ index, rest: value - Math.floor(value) }));
  byRest.sort((a, b) => b.rest - a.rest || a.index - b.index);
  for (const { index } of byRest.slice(0, shared - sum(shares))) shares[index]!++;
  return shares;
}
