import type { Stripe } from "stripe";
import { lookupKey, soldPrices } from "../../../services/billing/pricing/keys.ts";
import type { Cadence, PaidTier } from "../../../services/billing/pricing/plans.ts";
import { createPriceId, type PriceId } from "../../../services/billing/pricing/price-ids.ts";
import { seed } from "../../../services/billing/pricing/seed.ts";
import { createProvider } from "../../../services/billing/stripe/provider.ts";
import { createLog } from "../../../services/kit/log.ts";

/** A Stripe that scenarios are told to: its API, and a clock that can be moved. */
export type Target = {
  stripe: Stripe;
  key: string;
  /** Where its API is, if not at Stripe. */
  url?: string;
  /** Adds a customer whose clock is moved by `advanceTo`, on one of his own where there are several. */
  addCustomer: () => Promise<Customer>;
  stop: () => Promise<void>;
};

export type Customer = {
  id: string;
  /** Moves the clock to a time, in seconds since 1970, and waits until all that falls due until then is done. */
  advanceTo: (time: number) => Promise<void>;
};

export type Scenario = Awaited<ReturnType<typeof openScenario>>;

/** Returns a target on which is sold what Berth sells. */
export async function openScenario(target: Target) {
  const provider = createProvider(
    { stripeKey: target.key, stripeUrl: target.url },
    createLog("test", process.env.LOG_LEVEL ?? "silent"),
  );
  await seed(provider);
  const prices = await readPrices(createPriceId(provider));
  return { ...target, provider, prices };
}

export type Prices = Awaited<ReturnType<typeof readPrices>>;

async function readPrices(priceId: PriceId) {
  const known = new Map<string, string>();
  for (const { kind, tier, cadence } of soldPrices()) {
    const key = lookupKey(kind, tier, cadence);
    known.set(key, await priceId(key));
  }
  return {
    compute: await priceId(lookupKey("compute")),
    of: (kind: "plan" | "seat", tier: PaidTier, cadence: Cadence) =>
      known.get(lookupKey(kind, tier, cadence))!,
  };
}

/** Adds a customer who pays with one of Stripe's test cards, such as pm_card_visa. */
export async function addPayer({ stripe, addCustomer }: Scenario, card = "pm_card_visa"): Promise<Customer> {
  const customer = await addCustomer();
  await useCard(stripe, customer.id, card);
  return customer;
}

/** Makes a test card what a customer pays with. */
export async function useCard(stripe: Stripe, customer: string, card: string): Promise<void> {
  const method = await stripe.paymentMethods.attach(card, { customer });
  await stripe.customers.update(customer, { invoice_settings: { default_payment_method: method.id } });
}

type Choice = { cadence?: "monthly" | "annual"; seats?: number; compute?: boolean; promotionCode?: string };

/** Subscribes a customer to pro, with the items that Checkout and Berth's webhook make. */
export async function subscribe(
  { stripe, prices }: Scenario,
  customer: string,
  { cadence = "monthly", seats = 0, compute = true, promotionCode }: Choice = {},
): Promise<Stripe.Subscription> {
  const { id } = await stripe.subscriptions.create({
    customer,
    items: [
      { price: prices.of("plan", "pro", cadence), quantity: 1 },
      ...(seats > 0 ? [{ price: prices.of("seat", "pro", cadence), quantity: seats }] : []),
    ],
    ...(promotionCode && { discounts: [{ promotion_code: promotionCode }] }),
    billing_mode: { type: "flexible" },
    off_session: true,
  });
  if (compute)
    await stripe.subscriptionItems.create(
      { subscription: id, price: prices.compute, proration_behavior: "none" },
      { idempotencyKey: `attach:${id}` },
    );
  return stripe.subscriptions.retrieve(id);
}

/** Returns the item of a subscription that has a price. */
export function itemOf(subscription: Stripe.Subscription, price: string): Stripe.SubscriptionItem {
  return subscription.items.data.find((item) => item.price.id === price)!;
}

/** Returns the invoices of a subscription, newest first. */
export async function invoicesOf(stripe: Stripe, subscription: string): Promise<Stripe.Invoice[]> {
  return (await stripe.invoices.list({ subscription, limit: 100 })).data;
}

/** Drafts are finalized an hour after they were made; and a little more, for the payment. */
export const FINALIZED_SECONDS = 2 * 3_600;
