import Stripe from "stripe";
import type { Provider } from "../stripe/provider.ts";
import { lookupKey, soldPrices } from "./keys.ts";
import { termCents } from "./plans.ts";
import { PRICE_VERSION } from "./price-versions.ts";

/** The meter that compute is reported to; its value is what has accrued since the period began. */
export const METER = "compute_usage";
/** Compute is reported in units of a hundredth of a cent. */
export const UNIT_CENTS = "0.01";

/** What the portal's configuration is found by. */
const PORTAL = "berth";

/**
 * Makes at the payment provider what Berth sells: products, prices, the meter, and the configuration of the portal. Done
 * again, it makes what is missing and changes nothing.
 */
export async function seed(provider: Provider): Promise<void> {
  await provider.ask(async (stripe) => {
    await seedPlans(stripe);
    await seedCompute(stripe);
    await seedPortal(stripe);
  });
}

/** Returns the id of the portal's configuration, which keeps customers from what goes past Berth's own rules. */
export async function findPortal(stripe: Stripe): Promise<string | undefined> {
  const { data } = await stripe.billingPortal.configurations.list({ active: true, limit: 100 });
  return data.find(({ metadata }) => metadata?.berth === PORTAL)?.id;
}

async function seedPlans(stripe: Stripe): Promise<void> {
  for (const { kind, tier, cadence, monthlyCents } of soldPrices()) {
    const lookup_key = lookupKey(kind, tier, cadence);
    if (await hasPrice(stripe, lookup_key)) continue;
    const name = `Berth ${tier}${kind === "seat" ? ", additional member" : ""}`;
    const product = await ensureProduct(stripe, `${kind}_${tier}`, name, { kind, tierId: tier });
    await stripe.prices.create(
      {
        product,
        currency: "usd",
        unit_amount: termCents(monthlyCents, cadence),
        recurring: { interval: cadence === "annual" ? "year" : "month" },
        lookup_key,
        metadata: { kind, tierId: tier, priceVersion: PRICE_VERSION },
      },
      { idempotencyKey: `price:${lookup_key}` },
    );
  }
}

async function seedCompute(stripe: Stripe): Promise<void> {
  const lookup_key = lookupKey("compute");
  if (await hasPrice(stripe, lookup_key)) return;
  const product = await ensureProduct(stripe, "compute", "Berth compute", { kind: "compute" });
  const meter = await ensureMeter(stripe);
  await stripe.prices.create(
    {
      product,
      currency: "usd",
      unit_amount_decimal: Stripe.Decimal.from(UNIT_CENTS),
      recurring: { interval: "month", usage_type: "metered", meter },
      lookup_key,
      metadata: { kind: "compute", priceVersion: PRICE_VERSION },
    },
    { idempotencyKey: `price:${lookup_key}` },
  );
}

async function seedPortal(stripe: Stripe): Promise<void> {
  if (await findPortal(stripe)) return;
  await stripe.billingPortal.configurations.create(
    {
      business_profile: { headline: "Invoices and payment methods" },
      features: {
        invoice_history: { enabled: true },
        payment_method_update: { enabled: true },
        customer_update: { enabled: true, allowed_updates: ["email", "address", "tax_id"] },
        subscription_cancel: { enabled: false },
        subscription_update: { enabled: false },
        subscription_pause: { enabled: false },
      },
      metadata: { berth: PORTAL },
    },
    { idempotencyKey: `portal:${PORTAL}` },
  );
}

async function hasPrice(stripe: Stripe, key: string): Promise<boolean> {
  const { data } = await stripe.prices.list({ lookup_keys: [key], limit: 1 });
  return data.length > 0;
}

/** Returns the id of a product. It is chosen by Berth, so that no second one can be made. */
async function ensureProduct(
  stripe: Stripe,
  key: string,
  name: string,
  metadata: Stripe.MetadataParam,
): Promise<string> {
  const id = `berth_${key}`;
  try {
    return (await stripe.products.retrieve(id)).id;
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeError) || error.code !== "resource_missing") throw error;
  }
  return (await stripe.products.create({ id, name, metadata }, { idempotencyKey: `product:${key}` })).id;
}

async function ensureMeter(stripe: Stripe): Promise<string> {
  const { data } = await stripe.billing.meters.list({ status: "active", limit: 100 });
  const found = data.find(({ event_name }) => event_name === METER);
  if (found) return found.id;
  const made = await stripe.billing.meters.create(
    {
      display_name: "Compute",
      event_name: METER,
      default_aggregation: { formula: "last" },
      customer_mapping: { type: "by_id", event_payload_key: "stripe_customer_id" },
      value_settings: { event_payload_key: "value" },
    },
    { idempotencyKey: `meter:${METER}` },
  );
  return made.id;
}
