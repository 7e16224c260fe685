import type Stripe from "stripe";
import { type Provider, readIfThere } from "../stripe/provider.ts";
import type { PromoCode } from "./eligibility.ts";

/** What a code is made of at Stripe, which finds no others. */
const CODE = /^[A-Za-z0-9-]+$/;
const COUPON = "promotion.coupon.applies_to";

/**
 * Returns the promo code that a customer means by what was typed, in any case and with spaces around it; undefined when
 * there is none, or only those of other customers. Of several with one name the active one comes first, then the
 * customer's own.
 */
export async function findPromoCode(
  provider: Provider,
  typed: string,
  customer: string | undefined,
): Promise<PromoCode | undefined> {
  const code = typed.trim();
  if (!CODE.test(code)) return undefined;
  const { data } = await provider.ask((stripe) =>
    stripe.promotionCodes.list({ code, limit: 100, expand: [`data.${COUPON}`] }),
  );
  const rank = (each: Stripe.PromotionCode) => Number(each.active) * 2 + Number(each.customer !== null);
  const own = data.filter((each) => each.customer === null || each.customer === customer);
  return toPromoCode(own.sort((a, b) => rank(b) - rank(a))[0]);
}

/** Returns a promo code by its id; undefined when the provider has it no longer. */
export async function readPromoCode(provider: Provider, id: string): Promise<PromoCode | undefined> {
  return toPromoCode(
    await readIfThere(provider, (stripe) => stripe.promotionCodes.retrieve(id, { expand: [COUPON] })),
  );
}

/** Returns a promo code with its coupon; undefined for one whose coupon was deleted. */
function toPromoCode(code: Stripe.PromotionCode | undefined): PromoCode | undefined {
  if (!code) return undefined;
  const { promotion, ...rest } = code;
  const { coupon } = promotion;
  return coupon && typeof coupon === "object" ? { ...rest, coupon } : undefined;
}
