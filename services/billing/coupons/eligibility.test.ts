import type Stripe from "stripe";
import { expect, test } from "vitest";
import { type PromoCode, refusalOf } from "./eligibility.ts";

const NOW = 1_800_000_000;
const PLANS = ["berth_plan_pro", "berth_seat_pro", "berth_plan_team", "berth_seat_team"];

/** A promo code for all plans, changed. */
function codeWith(
  code: Partial<PromoCode> = {},
  coupon: Partial<Stripe.Coupon> = {},
  restrictions: Partial<Stripe.PromotionCode.Restrictions> = {},
): PromoCode {
  const plain = {
    id: "promo_1",
    object: "promotion_code",
    active: true,
    code: "LAUNCH",
    created: NOW - 100,
    customer: null,
    customer_account: null,
    expires_at: null,
    livemode: false,
    max_redemptions: null,
    metadata: {},
    times_redeemed: 0,
    restrictions: {
      first_time_transaction: false,
      minimum_amount: null,
      minimum_amount_currency: null,
      ...restrictions,
    },
    coupon: {
      id: "c_1",
      object: "coupon",
      amount_off: null,
      applies_to: { products: PLANS },
      created: NOW - 100,
      currency: null,
      duration: "forever",
      duration_in_months: null,
      livemode: false,
      max_redemptions: null,
      metadata: {},
      name: null,
      percent_off: 20,
      redeem_by: null,
      times_redeemed: 0,
      valid: true,
      ...coupon,
    },
  } satisfies PromoCode;
  return { ...plain, ...code };
}

const pro = { tier: "pro", cadence: "monthly" as const };
const refusal = (code: PromoCode, more = {}) =>
  refusalOf(code, { now: NOW, plan: pro, paidBefore: true, installation: "", ...more });

test("a code for the plan can be redeemed, with a plan and before one is chosen", () => {
  expect(refusal(codeWith())).toBeUndefined();
  expect(refusal(codeWith(), { plan: undefined })).toBeUndefined();
  const dollars = codeWith({}, { percent_off: null, amount_off: 500, currency: "usd" });
  expect(refusal(dollars)).toBeUndefined();
});

test.each([
  ["past its end", codeWith({ expires_at: NOW })],
  ["whose coupon is past", codeWith({}, { redeem_by: NOW - 1, valid: false })],
  ["that was ended", codeWith({ active: false })],
  ["whose coupon is void", codeWith({}, { valid: false })],
])("a code %s has expired", (_, code) => {
  expect(refusal(code)).toBe("expired");
});

test("a code ends just at its time", () => {
  expect(refusal(codeWith({ expires_at: NOW + 1 }))).toBeUndefined();
});

test.each([
  ["code", codeWith({ max_redemptions: 2, times_redeemed: 2, active: false })],
  ["coupon", codeWith({ active: false }, { max_redemptions: 1, times_redeemed: 1, valid: false })],
])("a used up %s is told as that, though the provider calls it inactive", (_, code) => {
  expect(refusal(code)).toBe("redemption_limit");
});

test("a code for first purchases is for those who never paid", () => {
  const code = codeWith({}, {}, { first_time_transaction: true });
  expect(refusal(code)).toBe("not_eligible");
  expect(refusal(code, { paidBefore: false })).toBeUndefined();
});

test("a code in another currency, or one that would discount compute, is not eligible", () => {
  expect(refusal(codeWith({}, { percent_off: null, amount_off: 500, currency: "eur" }))).toBe("not_eligible");
  expect(refusal(codeWith({}, {}, { minimum_amount: 1, minimum_amount_currency: "eur" }))).toBe(
    "not_eligible",
  );
  const { applies_to: _, ...everything } = codeWith().coupon;
  expect(refusal({ ...codeWith(), coupon: everything })).toBe("not_eligible");
  expect(refusal(codeWith({}, { applies_to: { products: [...PLANS, "berth_compute"] } }))).toBe(
    "not_eligible",
  );
});

test("a code for another plan is restricted to it; before a plan is chosen, any will do", () => {
  const team = codeWith({}, { applies_to: { products: ["berth_plan_team"] } });
  expect(refusal(team)).toBe("plan_restricted");
  expect(refusal(team, { plan: undefined })).toBeUndefined();
  expect(refusal(team, { plan: { tier: "team", cadence: "annual" } })).toBeUndefined();
  const other = codeWith({}, { applies_to: { products: ["prod_socks"] } });
  expect(refusal(other, { plan: undefined })).toBe("plan_restricted");
});

test("a minimum is compared with the price of the plan", () => {
  const atLeast = (cents: number) =>
    codeWith({}, {}, { minimum_amount: cents, minimum_amount_currency: "usd" });
  expect(refusal(atLeast(2_000))).toBeUndefined();
  expect(refusal(atLeast(2_001))).toBe("plan_restricted");
  expect(refusal(atLeast(2_001), { plan: { tier: "pro", cadence: "annual" } })).toBeUndefined();
  expect(refusal(atLeast(100_001), { plan: undefined })).toBe("plan_restricted");
});
