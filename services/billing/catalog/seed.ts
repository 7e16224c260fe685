import Stripe from "stripe";
import type { Provider } from "../stripe/provider.ts";
import { lookupKey, productId, soldPrices } from "./keys.ts";
import { termCents } from "./plans.ts";
import { findPortal, makePortal } from "./portal-configuration.ts";
import { PRICE_VERSION } from "./price-versions.ts";

/** The meter that compute is reported to; its value is what has accrued since the period began. */
export const METER = "compute_usage";
/** Compute is reported in units of a hundredth of a cent. */
export const UNIT_CENTS = "0.01";

/** The provider's key is unknown there, or may not make what Berth sells. */
export class KeyRefused extends Error {
  override name = "KeyRefused";
}

/**
 * Makes at the payment provider what Berth sells: products, prices, the meter, and the configuration of the portal.
 * Returns what was made. Done again, or by several at once, it makes what is missing and changes nothing; prices of
 * former lists stay as they are. Throws KeyRefused, and 502 payment_provider_unavailable.
 */
export async function seed(provider: Provider): Promise<string[]> {
  return provider.ask(async (stripe) => {
    const made: string[] = [];
    try {
      await seedPlans(stripe, made);
      await seedCompute(stripe, made);
      await ensure(
        made,
        "configuration of the portal",
        () => findPortal(stripe),
        () => makePortal(stripe),
      );
      return made;
    } catch (error) {
      const { StripeAuthenticationError, StripePermissionError } = Stripe.errors;
      if (error instanceof StripeAuthenticationError || error instanceof StripePermissionError)
        throw new KeyRefused(error.message, { cause: error });
      throw error;
    }
  });
}

async function seedPlans(stripe: Stripe, made: string[]): Promise<void> {
  for (const { kind, tier, cadence, monthlyCents } of soldPrices()) {
    const name = `Berth ${tier}${kind === "seat" ? ", additional member" : ""}`;
    const metadata = { kind, tierId: tier };
    const product = await ensureProduct(stripe, made, { id: productId(kind, tier), name, metadata });
    await ensurePrice(stripe, made, lookupKey(kind, tier, cadence), {
      product,
      unit_amount: termCents(monthlyCents, cadence),
      recurring: { interval: cadence === "annual" ? "year" : "month" },
      metadata,
    });
  }
}

async function seedCompute(stripe: Stripe, made: string[]): Promise<void> {
  const metadata = { kind: "compute" };
  const product = await ensureProduct(stripe, made, {
    id: productId("compute"),
    name: "Berth compute",
    metadata,
  });
  const meter = await ensureMeter(stripe, made);
  await ensurePrice(stripe, made, lookupKey("compute"), {
    product,
    unit_amount_decimal: Stripe.Decimal.from(UNIT_CENTS),
    recurring: { interval: "month", usage_type: "metered", meter },
    metadata,
  });
}

/**
 * Returns the id of a thing that has a name of its own at the provider: the one that is there, or else a new one. No
 * idempotency key is needed, which would also repeat a 5xx for a day: where somebody else was faster, the provider
 * refuses a second thing with the name, and the first is found.
 */
async function ensure(
  made: string[],
  name: string,
  find: () => Promise<string | undefined>,
  make: () => Promise<{ id: string }>,
): Promise<string> {
  const known = await find();
  if (known !== undefined) return known;
  try {
    const { id } = await make();
    made.push(name);
    return id;
  } catch (error) {
    const others = error instanceof Stripe.errors.StripeInvalidRequestError ? await find() : undefined;
    if (others === undefined) throw error;
    return others;
  }
}

/** Products have an id that Berth chooses. */
function ensureProduct(
  stripe: Stripe,
  made: string[],
  product: Stripe.ProductCreateParams & { id: string },
): Promise<string> {
  const find = async () => {
    const { data } = await stripe.products.list({ ids: [product.id] });
    return data[0]?.id;
  };
  return ensure(made, `product ${product.id}`, find, () => stripe.products.create(product));
}

function ensurePrice(
  stripe: Stripe,
  made: string[],
  lookup_key: string,
  { metadata, ...price }: Omit<Stripe.PriceCreateParams, "currency" | "lookup_key"> & { metadata: object },
): Promise<string> {
  const find = async () => {
    const { data } = await stripe.prices.list({ lookup_keys: [lookup_key], limit: 1 });
    return data[0]?.id;
  };
  const about = { ...metadata, priceVersion: PRICE_VERSION };
  return ensure(made, `price ${lookup_key}`, find, () =>
    stripe.prices.create({ ...price, currency: "usd", lookup_key, metadata: about }),
  );
}

function ensureMeter(stripe: Stripe, made: string[]): Promise<string> {
  const find = async () => {
    const { data } = await stripe.billing.meters.list({ status: "active", limit: 100 });
    return data.find(({ event_name }) => event_name === METER)?.id;
  };
  return ensure(made, `meter ${METER}`, find, () =>
    stripe.billing.meters.create({
      display_name: "Compute",
      event_name: METER,
      default_aggregation: { formula: "last" },
      customer_mapping: { type: "by_id", event_payload_key: "stripe_customer_id" },
      value_settings: { event_payload_key: "value" },
    }),
  );
}
