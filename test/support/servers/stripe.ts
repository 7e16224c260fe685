import { type StripeOptions, startStripe } from "../../../deploy/local/stripe/start.ts";
import { clientOf, payOnPage } from "../../../deploy/local/stripe/testing.ts";

/** The simulator takes every key that begins like a test key. */
const STRIPE_KEY = "sk_test_simulator";

export type TestStripe = Awaited<ReturnType<typeof testStripe>>;

/**
 * Starts a simulator of Stripe in this process, with a client of it that does not repeat what failed. `webhookSecret`
 * signs what is sent to `webhookUrl`; `pay` pays a checkout session on its page.
 */
export async function testStripe(options: StripeOptions = {}) {
  const webhookSecret = options.secret ?? "whsec_simulator";
  const simulator = await startStripe({ ...options, secret: webhookSecret });
  return {
    ...simulator,
    key: STRIPE_KEY,
    webhookSecret,
    stripe: clientOf(simulator.url, STRIPE_KEY),
    pay: payOnPage,
  };
}
