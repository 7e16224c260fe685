import { stock } from "../../../deploy/local/payments.ts";
import type { StripeOptions } from "../../../deploy/stripe-simulator/start.ts";
import { createProvider } from "../../../services/billing/stripe/provider.ts";
import { createLog } from "../../../services/kit/log.ts";
import { testStripe } from "./stripe.ts";

/**
 * A simulator of Stripe in which Berth's plans are for sale, with the promo code of `npm start`, and the environment in
 * which a platform uses it.
 */
export async function seededStripe(options: StripeOptions = {}) {
  const simulator = await testStripe(options);
  const { key, url, webhookSecret } = simulator;
  await stock(createProvider({ stripeKey: key, stripeUrl: url }, createLog("seed", "silent")));
  const env = { STRIPE_SECRET_KEY: key, STRIPE_WEBHOOK_SECRETS: webhookSecret, STRIPE_API_URL: url };
  return { ...simulator, env };
}
