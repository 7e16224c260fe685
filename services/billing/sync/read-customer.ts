import type Stripe from "stripe";
import type { Pool } from "../../kit/postgres/db.ts";
import { EXPAND_USES, type Redemption, redemptionsOf, usesOf } from "../coupons/redemptions.ts";
import { type MirroredInvoice, mirrorInvoice } from "../invoices/mirror-invoice.ts";
import { INVOICES } from "../invoices/sql.ts";
import { withAllLines } from "../invoices/subscribed-lines.ts";
import { invoicedPeriods } from "../metering/periods.ts";
import type { InvoicedPeriod } from "../metering/sql.ts";
import { isStripeError, type Provider } from "../stripe/provider.ts";
import {
  EXPAND_LIST,
  type MirroredSubscription,
  mirrorSubscription,
} from "../subscription/mirror-subscription.ts";
import { findSubscription } from "../subscription/sql.ts";

type Deps = { pool: Pool; provider: Provider };

/** All that the payment provider knows of a customer, as Berth records it. */
export type Found = {
  accountId: string;
  customerId: string;
  subscriptions: MirroredSubscription[];
  invoices: MirroredInvoice[];
  invoiced: InvoicedPeriod[];
  /** The promo codes that were redeemed on its subscriptions, and that reduced its invoices. */
  redemptions: Redemption[];
};

/** Reads a customer from the payment provider. Throws 502 payment_provider_unavailable. */
export async function readCustomer(deps: Deps, accountId: string, customerId: string): Promise<Found> {
  const { provider } = deps;
  const { subscriptions, invoices } = await readLists(deps, accountId, customerId);
  const mirrored = subscriptions.flatMap((each) => mirrorSubscription(accountId, each) ?? []);
  const computeItems = new Set(mirrored.flatMap(({ compute }) => compute?.item ?? []));
  const waiting = await provider.ask((stripe) => readWaiting(stripe, invoices));
  return {
    accountId,
    customerId,
    subscriptions: mirrored,
    invoices: invoices.flatMap((each) => mirrorInvoice(each, computeItems, waiting) ?? []),
    invoiced: invoices.flatMap((each) => invoicedPeriods(each, computeItems)),
    redemptions: [...subscriptions.flatMap(redemptionsOf), ...invoices.flatMap(usesOf)],
  };
}

type Lists = { subscriptions: Stripe.Subscription[]; invoices: Stripe.Invoice[] };

async function readLists(deps: Deps, accountId: string, customer: string): Promise<Lists> {
  try {
    return await deps.provider.ask(async (stripe) => {
      const [subscriptions, invoices] = await Promise.all([
        stripe.subscriptions.list({ customer, status: "all", limit: 100, expand: EXPAND_LIST }),
        stripe.invoices.list({ customer, limit: INVOICES * 2, expand: EXPAND_USES }),
      ]);
      const complete = await Promise.all(invoices.data.map((each) => withAllLines(stripe, each)));
      return { subscriptions: subscriptions.data, invoices: complete };
    }, "resource_missing");
  } catch (error) {
    if (!isStripeError(error, "resource_missing")) throw error;
    return { subscriptions: await readOfDeleted(deps, accountId, customer), invoices: [] };
  }
}

/** Returns the subscription that is recorded of a customer who was deleted, and so has no lists. Throws 502 for others. */
async function readOfDeleted(
  { pool, provider }: Deps,
  accountId: string,
  customer: string,
): Promise<Stripe.Subscription[]> {
  const found = await findSubscription(pool, accountId);
  return provider.ask(async (stripe) => {
    await stripe.customers.retrieve(customer);
    return found ? [await stripe.subscriptions.retrieve(found.id)] : [];
  });
}

/** Returns which of a customer's invoices wait until their payer confirms the payment, as banks want at times. */
async function readWaiting(stripe: Stripe, invoices: Stripe.Invoice[]): Promise<Set<string>> {
  const failed = invoices.filter(({ status, attempt_count: attempts }) => status === "open" && attempts > 0);
  const payments = await Promise.all(
    failed.map(({ id: invoice }) =>
      stripe.invoicePayments.list({ invoice, status: "open", expand: ["data.payment.payment_intent"] }),
    ),
  );
  const isWaiting = ({ payment: { payment_intent: intent } }: Stripe.InvoicePayment) =>
    typeof intent === "object" && intent?.status === "requires_action";
  return new Set(failed.flatMap(({ id }, index) => (payments[index]!.data.some(isWaiting) ? id : [])));
}
