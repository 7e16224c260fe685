import Stripe from "stripe";
import { type StripeOptions, startStripe } from "./start.ts";

const DAY = 24 * 60 * 60;

/** A simulator with the objects that a platform sells: a plan, seats and compute. */
export type Shop = Awaited<ReturnType<typeof openShop>>;

/** Returns a client of a simulator, without automatic retries. */
export function clientOf(url: string, key = "sk_test_shop"): Stripe {
  const { hostname, port } = new URL(url);
  return new Stripe(key, { host: hostname, port, protocol: "http", maxNetworkRetries: 0, telemetry: false });
}

/** Starts a simulator and creates the products and prices for sale. */
export async function openShop(options: StripeOptions = {}) {
  const simulator = await startStripe(options);
  const stripe = clientOf(simulator.url);
  const plan = await stripe.products.create({ name: "Pro", metadata: { kind: "plan" } });
  const computeProduct = await stripe.products.create({ name: "Compute", metadata: { kind: "compute" } });
  const meter = await stripe.billing.meters.create({
    display_name: "Compute",
    event_name: "compute_usage",
    default_aggregation: { formula: "last" },
  });
  const priceOf = (unit_amount: number, interval: "month" | "year", lookup_key: string) =>
    stripe.prices.create({
      currency: "usd",
      product: plan.id,
      unit_amount,
      recurring: { interval },
      lookup_key,
    });
  const compute = await stripe.prices.create({
    currency: "usd",
    product: computeProduct.id,
    unit_amount_decimal: Stripe.Decimal.from("0.01"),
    recurring: { interval: "month", usage_type: "metered", meter: meter.id },
  });
  const customer = await stripe.customers.create({
    email: "ada@example.com",
    metadata: { accountId: "acc_1" },
  });
  return {
    ...simulator,
    stripe,
    customer,
    plan,
    meter,
    prices: {
      monthly: await priceOf(2000, "month", "plan_pro_monthly"),
      annual: await priceOf(20_000, "year", "plan_pro_annual"),
      compute,
    },
    days: (count: number) => simulator.clock.advance(count * DAY),
  };
}

/** Returns the URL of a session's page, as a browser asks for it. */
function pageOf(session: Stripe.Checkout.Session): string {
  return session.url!.split("#")[0]!;
}

/** Opens a checkout session for the customer. */
export function openSession(
  { stripe, customer }: Pick<Shop, "stripe" | "customer">,
  change: Partial<Stripe.Checkout.SessionCreateParams> & { price: string },
): Promise<Stripe.Checkout.Session> {
  const { price, ...rest } = change;
  return stripe.checkout.sessions.create({
    mode: "subscription",
    ui_mode: "hosted_page",
    customer: customer.id,
    success_url: "http://localhost/done?session={CHECKOUT_SESSION_ID}",
    cancel_url: "http://localhost/back",
    line_items: [{ price, quantity: 1 }],
    ...rest,
  });
}

/** Presses Pay on a session's page, as its form does. */
export function payOnPage(session: Stripe.Checkout.Session, card = "4242 4242 4242 4242"): Promise<Response> {
  return fetch(pageOf(session), {
    method: "POST",
    body: new URLSearchParams({ action: "pay", card_number: card }),
    redirect: "manual",
  });
}

/** Buys a price on its page and returns the subscription. */
export async function subscribe(
  shop: Pick<Shop, "stripe" | "customer">,
  price: string,
  card?: string,
): Promise<Stripe.Subscription> {
  const session = await openSession(shop, { price });
  await payOnPage(session, card);
  const { subscription } = await shop.stripe.checkout.sessions.retrieve(session.id);
  return shop.stripe.subscriptions.retrieve(subscription as string);
}
