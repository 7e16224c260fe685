import { type StripeOptions, startStripe } from "../../../deploy/stripe-simulator/start.ts";
import { clientOf, payOnPage } from "../../../deploy/stripe-simulator/testing.ts";
import { requestChecker } from "../../contracts/stripe/conformance/check-request.ts";

/** The simulator takes every key that begins like a test key. */
const STRIPE_KEY = "sk_test_simulator";

const check = requestChecker();

export type TestStripe = Awaited<ReturnType<typeof testStripe>>;

/**
 * Starts a simulator of Stripe in this process, with a client of it that does not repeat what failed. `webhookSecret`
 * signs what is sent to `webhookUrl`; `pay` pays a checkout session on its page. A request that Stripe's own types do
 * not allow is answered with 400, and `stop` throws what was wrong with it.
 */
export async function testStripe(options: StripeOptions = {}) {
  const webhookSecret = options.secret ?? "whsec_simulator";
  const complaints: string[] = [];
  const simulator = await startStripe({
    ...options,
    secret: webhookSecret,
    check: (method, path, form) => {
      const found = check(method, path, form);
      complaints.push(...found.map((complaint) => `${method} ${path}: ${complaint}`));
      return found;
    },
  });
  const stop = async () => {
    await simulator.stop();
    if (complaints.length > 0) throw new Error(`Stripe would refuse this:\n${complaints.join("\n")}`);
  };
  return {
    ...simulator,
    stop,
    key: STRIPE_KEY,
    webhookSecret,
    stripe: clientOf(simulator.url, STRIPE_KEY),
    pay: payOnPage,
  };
}
