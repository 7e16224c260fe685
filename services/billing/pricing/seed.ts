import Stripe from "stripe";
import { nameAt, ownedBy } from "../stripe/installation.ts";
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
    const { installation, addsTax } = provider;
    const seeding = { stripe, made, installation, addsTax };
    try {
      await seedPlans(seeding);
      await seedCompute(seeding);
      await ensure(
        made,
        nameAt(installation, "configuration of the portal"),
        () => findPortal(stripe, installation),
        () => makePortal(stripe, installation),
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

type Seeding = { stripe: Stripe; made: string[]; installation: string; addsTax: boolean };

/** Names of products are shown on invoices, and tell those of several installations apart in the Dashboard. */
const titleOf = (installation: string, name: string) =>
  installation === "" ? name : `${name} (${installation})`;

async function seedPlans(seeding: Seeding): Promise<void> {
  const { installation } = seeding;
  for (const { kind, tier, cadence, monthlyCents } of soldPrices()) {
    const name = `Berth ${tier}${kind === "seat" ? ", additional member" : ""}`;
    const metadata = { kind, tierId: tier, ...ownedBy(installation) };
    const id = nameAt(installation, productId(kind, tier));
    const product = await ensureProduct(seeding, { id, name: titleOf(installation, name), metadata });
    await ensurePrice(seeding, lookupKey(kind, tier, cadence), {
      product,
      unit_amount: termCents(monthlyCents, cadence),
      recurring: { interval: cadence === "annual" ? "year" : "month" },
      metadata,
    });
  }
}

async function seedCompute(seeding: Seeding): Promise<void> {
  const { installation } = seeding;
  const metadata = { kind: "compute", ...ownedBy(installation) };
  const product = await ensureProduct(seeding, {
    id: nameAt(installation, productId("compute")),
    name: titleOf(installation, "Berth compute"),
    metadata,
  });
  const meter = await ensureMeter(seeding);
  await ensurePrice(seeding, lookupKey("compute"), {
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
  { stripe, made }: Seeding,
  product: Stripe.ProductCreateParams & { id: string },
): Promise<string> {
  const find = async () => {
    const { data } = await stripe.products.list({ ids: [product.id] });
    return data[0]?.id;
  };
  return ensure(made, `product ${product.id}`, find, () => stripe.products.create(product));
}

function ensurePrice(
  { stripe, made, installation, addsTax }: Seeding,
  key: string,
  { metadata, ...price }: Omit<Stripe.PriceCreateParams, "currency" | "lookup_key"> & { metadata: object },
): Promise<string> {
  const lookup_key = nameAt(installation, key);
  const find = async () => {
    const [price] = (await stripe.prices.list({ lookup_keys: [lookup_key], limit: 1 })).data;
    // Taxes are added to prices. What a price says once cannot be changed.
    if (price && addsTax && price.tax_behavior === "unspecified") {
      await stripe.prices.update(price.id, { tax_behavior: "exclusive" });
      made.push(`tax of ${lookup_key}`);
    }
    return price?.id;
  };
  const taxed = addsTax ? { tax_behavior: "exclusive" as const } : {};
  const about = { ...metadata, priceVersion: PRICE_VERSION };
  return ensure(made, `price ${lookup_key}`, find, () =>
    stripe.prices.create({ ...price, ...taxed, currency: "usd", lookup_key, metadata: about }),
  );
}

function ensureMeter({ stripe, made, installation }: Seeding): Promise<string> {
  const meter = nameAt(installation, METER);
  const find = async () => {
    const { data } = await stripe.billing.meters.list({ status: "active", limit: 100 });
    return data.find(({ event_name }) => event_name === meter)?.id;
  };
  return ensure(made, `meter ${meter}`, find, () =>
    stripe.billing.meters.create({
      display_name: titleOf(installation, "Compute"),
      event_name: meter,
      default_aggregation: { formula: "last" },
      customer_mapping: { type: "by_id", event_payload_key: "stripe_customer_id" },
      value_settings: { event_payload_key: "value" },
    }),
  );
}
