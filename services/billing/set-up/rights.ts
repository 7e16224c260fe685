import Stripe from "stripe";
import { type Finding, fine, wrong } from "./finding.ts";

type Ask = (stripe: Stripe) => Promise<unknown>;

/** The id of nothing: a request about it changes nothing, and is answered 403 or 404, by what the key may do. */
const NONE = "berth_check";

/** What billing reads, by the name of the right in Stripe's Dashboard. */
const READ: Record<string, Ask> = {
  Products: (stripe) => stripe.products.list({ limit: 1 }),
  Prices: (stripe) => stripe.prices.list({ limit: 1 }),
  "Promotion codes": (stripe) => stripe.promotionCodes.list({ limit: 1 }),
  Disputes: (stripe) => stripe.disputes.list({ limit: 1 }),
  Events: (stripe) => stripe.events.list({ limit: 1 }),
  "Billing meters": (stripe) => stripe.billing.meters.list({ limit: 1 }),
};

/** What billing reads besides, if taxes are added. */
const READ_OF_TAXES: Record<string, Ask> = {
  "Tax settings": (stripe) => stripe.tax.settings.retrieve(),
  "Tax registrations": (stripe) => stripe.tax.registrations.list({ limit: 1 }),
  "Tax rates": (stripe) => stripe.taxRates.retrieve(NONE),
};

/** What billing changes. */
const WRITE: Record<string, Ask> = {
  Customers: (stripe) => stripe.customers.update(NONE, {}),
  "Checkout Sessions": (stripe) => stripe.checkout.sessions.expire(NONE),
  Subscriptions: (stripe) => stripe.subscriptions.update(NONE, {}),
  "Subscription schedules": (stripe) => stripe.subscriptionSchedules.release(NONE),
  Invoices: (stripe) => stripe.invoices.update(NONE, {}),
  "Credit notes": (stripe) => stripe.creditNotes.create({ invoice: NONE, amount: 1 }),
  Refunds: (stripe) => stripe.refunds.create({ payment_intent: NONE }),
  "Credit grants": (stripe) => stripe.billing.creditGrants.update(NONE, {}),
  Coupons: (stripe) => stripe.coupons.update(NONE, {}),
  "Meter events": (stripe) =>
    stripe.billing.meterEvents.create({
      event_name: NONE,
      payload: { stripe_customer_id: NONE, value: "0" },
    }),
  "Customer portal": (stripe) => stripe.billingPortal.configurations.update(NONE, {}),
};

/**
 * Returns whether a key may do all that billing does. Nothing is changed: writing is tried on things that do not exist.
 * Throws what Stripe answers that does not answer this: a key that it does not know, or no answer.
 */
export async function checkRights(stripe: Stripe, addsTax: boolean): Promise<Finding[]> {
  const asked = [
    ...Object.entries({ ...READ, ...(addsTax && READ_OF_TAXES) }).map(([name, ask]) => ({
      right: `${name}: read`,
      ask,
    })),
    ...Object.entries(WRITE).map(([name, ask]) => ({ right: `${name}: write`, ask })),
  ];
  const lacking: string[] = [];
  for (const { right, ask } of asked) if (!(await may(stripe, ask))) lacking.push(right);
  if (lacking.length === 0) return [fine("The key may do everything that billing does.")];
  return lacking.map((right) =>
    wrong(
      `The key lacks a right: ${right}.`,
      "Add it to the key in the Dashboard, under Developers, API keys.",
    ),
  );
}

async function may(stripe: Stripe, ask: Ask): Promise<boolean> {
  try {
    await ask(stripe);
    return true;
  } catch (error) {
    if (error instanceof Stripe.errors.StripePermissionError) return false;
    // It may do it, but there is no such thing.
    if (error instanceof Stripe.errors.StripeInvalidRequestError) return true;
    throw error;
  }
}
