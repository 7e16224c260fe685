import type Stripe from "stripe";
import { productId } from "../pricing/keys.ts";
import type { PaidTier } from "../pricing/plans.ts";

type Promo = Omit<Stripe.PromotionCodeCreateParams, "promotion"> & {
  coupon?: Stripe.CouponCreateParams;
  /** The plans that it is for; both unless given. */
  tiers?: PaidTier[];
};

/** Makes a promo code at the provider, as an operator does: of 20 % for good, unless `coupon` says otherwise. */
export async function makePromo(
  stripe: Stripe,
  code: string,
  { coupon, tiers = ["pro", "team"], ...more }: Promo = {},
): Promise<Stripe.PromotionCode> {
  const products = tiers.flatMap((tier) => [productId("plan", tier), productId("seat", tier)]);
  const off = coupon?.amount_off === undefined ? { percent_off: 20 } : {};
  const made = await stripe.coupons.create({
    duration: "forever",
    applies_to: { products },
    ...off,
    ...coupon,
  });
  return stripe.promotionCodes.create({ promotion: { type: "coupon", coupon: made.id }, code, ...more });
}
