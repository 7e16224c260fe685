import fc from "fast-check";
import type Stripe from "stripe";
import { expect, test } from "vitest";
import { toCouponShares } from "./coupon-shares.ts";

const coupon = (members: Partial<Stripe.Coupon>) =>
  ({ amount_off: null, percent_off: null, ...members }) as Stripe.Coupon;
const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
const lines = fc.array(
  fc.record({ product: fc.constantFrom("plan", "seat", "compute"), amount: fc.nat(1_000_000) }),
);

test("what an amount takes off is whole, all of it as far as there is something to take it off, and nothing else", () => {
  fc.assert(
    fc.property(lines, fc.nat(2_000_000), (bought, amount_off) => {
      const shares = toCouponShares(
        coupon({ amount_off, applies_to: { products: ["plan", "seat"] } }),
        bought,
      );
      const eligible = bought.map(({ product, amount }) => (product === "compute" ? 0 : amount));
      expect(sum(shares)).toBe(Math.min(amount_off, sum(eligible)));
      for (const [index, share] of shares.entries()) {
        expect(Number.isInteger(share)).toBe(true);
        expect(share).toBeGreaterThanOrEqual(0);
        expect(share).toBeLessThanOrEqual(eligible[index]!);
      }
    }),
  );
});

test("a percentage is taken off each line that it is for", () => {
  const bought = [
    { product: "plan", amount: 2_000 },
    { product: "compute", amount: 999 },
    { product: "seat", amount: -1_000 },
  ];
  expect(toCouponShares(coupon({ percent_off: 12.5 }), bought)).toEqual([250, 125, -125]);
  const ofPlan = coupon({ percent_off: 100, applies_to: { products: ["plan"] } });
  expect(toCouponShares(ofPlan, bought)).toEqual([2_000, 0, 0]);
});
