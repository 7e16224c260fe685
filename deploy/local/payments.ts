import { hkdfSync } from "node:crypto";
import type Stripe from "stripe";
import { productId, soldPrices } from "../../services/billing/pricing/keys.ts";
import { seed } from "../../services/billing/pricing/seed.ts";
import { createProvider, type Provider } from "../../services/billing/stripe/provider.ts";
import { createLog } from "../../services/kit/log.ts";
import { startStripe } from "../stripe-simulator/start.ts";

/** The simulator takes every key that begins like a test key of Stripe's. */
const KEY = "sk_test_simulator";

/** A promo code to try: a fifth off plan and seats, three times. */
export const PROMO_CODE = "WELCOME20";

/** How billing reaches the payment provider: Stripe as the environment says, or the simulator. */
export type PaymentSettings = { key: string; webhookSecrets: string; url: string; installation: string };

/**
 * Starts the simulator of Stripe, with Berth's plans for sale and a promo code to try, and returns how billing reaches
 * it. It reports to the gateway at `origin`, signed with a secret made of `secret`.
 */
export async function startSimulatedPayments(options: {
  dir: string;
  secret: string;
  port: number;
  origin: string;
}) {
  const { dir, secret, port, origin } = options;
  const signing = Buffer.from(hkdfSync("sha256", secret, "", "payment webhooks", 24)).toString("hex");
  const webhookSecret = `whsec_${signing}`;
  const simulator = await startStripe({
    port,
    dir,
    webhookUrl: `${origin}/webhooks/stripe`,
    secret: webhookSecret,
  });
  try {
    const provider = createProvider(
      { stripeKey: KEY, stripeUrl: simulator.url },
      createLog("payments", "warn"),
    );
    await stock(provider);
  } catch (error) {
    await simulator.stop();
    throw error;
  }
  const settings: PaymentSettings = {
    key: KEY,
    webhookSecrets: webhookSecret,
    url: simulator.url,
    installation: "",
  };
  return { settings, pageUrl: `${simulator.url}/`, stop: simulator.stop };
}

/** Makes at a simulator what Berth sells, and a promo code. */
export async function stock(provider: Provider): Promise<void> {
  await seed(provider);
  await provider.ask(addPromoCode);
}

async function addPromoCode(stripe: Stripe): Promise<void> {
  const { data } = await stripe.promotionCodes.list({ code: PROMO_CODE, limit: 1 });
  if (data.length > 0) return;
  const products = [...new Set(soldPrices().map(({ kind, tier }) => productId(kind, tier)))];
  const coupon = await stripe.coupons.create({
    name: "20 % off for three months",
    percent_off: 20,
    duration: "repeating",
    duration_in_months: 3,
    applies_to: { products },
  });
  await stripe.promotionCodes.create({ code: PROMO_CODE, promotion: { type: "coupon", coupon: coupon.id } });
}
