import { seed } from "../../../services/billing/catalog/seed.ts";
import { createProvider } from "../../../services/billing/stripe/provider.ts";
import { createLog } from "../../../services/kit/log.ts";
import { testStripe } from "./stripe.ts";

/** A promo code for all plans. */
export const PROMO_CODE = "LAUNCH20";

/** A simulator of Stripe in which Berth's plans are for sale, and the environment in which a platform uses it. */
export async function seededStripe() {
  const simulator = await testStripe();
  const { stripe, key, url, webhookSecret } = simulator;
  await seed(createProvider({ stripeKey: key, stripeUrl: url }, createLog("seed", "silent")));
  const products = await stripe.products.list({ limit: 100 });
  const sold = products.data.filter(({ metadata }) => metadata.kind !== "compute").map(({ id }) => id);
  const coupon = await stripe.coupons.create({
    percent_off: 20,
    duration: "forever",
    applies_to: { products: sold },
  });
  await stripe.promotionCodes.create({
    code: PROMO_CODE,
    promotion: { type: "coupon", coupon: coupon.id },
  });
  const env = { STRIPE_SECRET_KEY: key, STRIPE_WEBHOOK_SECRETS: webhookSecret, STRIPE_API_URL: url };
  return { ...simulator, env };
}
