import type Stripe from "stripe";
import { isStripeError, type Provider, readIfThere } from "../stripe/provider.ts";
import type { PromoCode } from "./eligibility.ts";
import { type Rest, restCouponId } from "./redemptions.ts";

/** The provider takes no longer name of a coupon, which invoices show. */
const NAME_CHARS = 40;

/**
 * Returns the id of a coupon that takes off what a promo code does, for the rest of its term; makes it at first. The code
 * itself cannot be used: it would start its term anew, and count as another redemption.
 */
export async function ensureRestCoupon(provider: Provider, code: PromoCode, rest: Rest): Promise<string> {
  const id = restCouponId(code.id, rest);
  if (await readIfThere(provider, (stripe) => stripe.coupons.retrieve(id))) return id;
  try {
    await provider.ask((stripe) => stripe.coupons.create({ id, ...termsOf(code, rest) }), EXISTS);
  } catch (error) {
    if (!isStripeError(error, EXISTS)) throw error;
  }
  return id;
}

const EXISTS = "resource_already_exists";

function termsOf({ id, code, coupon }: PromoCode, rest: Rest): Stripe.CouponCreateParams {
  const { percent_off, amount_off, currency, applies_to, name } = coupon;
  return {
    ...(percent_off !== null && { percent_off }),
    ...(amount_off !== null && { amount_off, currency: currency ?? "usd" }),
    ...(typeof rest === "number" ? { duration: "repeating", duration_in_months: rest } : { duration: rest }),
    ...(applies_to && { applies_to: { products: applies_to.products } }),
    name: (name ?? code).slice(0, NAME_CHARS),
    metadata: { promotionCode: id, code },
  };
}
