import type Stripe from "stripe";
import type { Cadence } from "../catalog/plans.ts";

/** A discount as the API shows it. */
export type Coupon = { code: string; label: string; percentOff?: number; amountOffCents?: number };
type Item = { kind: string; ref: string; quantity: number; unitPriceUsd: number };
type PaymentMethod = { brand: string; last4?: string; expMonth?: number; expYear?: number };

/** A subscription of the payment provider as Berth records it. */
export type MirroredSubscription = {
  id: string;
  accountId: string;
  status: string;
  tier: string;
  cadence: Cadence;
  priceVersion: string;
  created: Date;
  currentPeriodEnd: Date;
  /** The current period of the compute item, once it is attached. */
  compute?: { item: string; start: Date; end: Date };
  cancelAtPeriodEnd: boolean;
  /** When it ended. */
  endedAt?: Date;
  coupon?: Coupon;
  /** The id of the promo code that its checkout spent. */
  promotionCode?: string;
  items: Item[];
  paymentMethod?: PaymentMethod;
};

export type MirroredInvoice = {
  id: string;
  subscriptionId?: string;
  kind: "subscription" | "compute" | "proration" | "manual";
  status: string;
  periodStart: Date;
  periodEnd: Date;
  totalCents: number;
  pdfUrl?: string;
  hostedUrl?: string;
  created: Date;
  /** When a failed payment is tried again. */
  nextAttempt?: Date;
  /** How often the provider tried to collect it. */
  attempts: number;
  /** Whether its payment waits until its payer confirms it. */
  actionRequired: boolean;
};

/** What has to be expanded in a subscription for `mirrorSubscription`. */
export const EXPAND = [
  "default_payment_method",
  "discounts.source.coupon",
  "discounts.promotion_code",
  "customer.invoice_settings.default_payment_method",
];

/** The same, in a list of subscriptions. */
export const EXPAND_LIST = EXPAND.map((path) => `data.${path}`);

const date = (seconds: number) => new Date(seconds * 1000);
const refOf = (price: Stripe.Price) => price.metadata.tierId || (price.metadata.kind ?? "");

/** Seats that nobody takes any longer stay as an item of 0. */
const isShown = ({ price, quantity }: Stripe.SubscriptionItem) =>
  price.metadata.kind !== "seat" || quantity !== 0;

/** Returns a subscription as Berth records it; undefined for one that Berth did not sell. Pure. */
export function mirrorSubscription(
  accountId: string,
  subscription: Stripe.Subscription,
): MirroredSubscription | undefined {
  const items = subscription.items.data;
  const plan = items.find(({ price }) => price.metadata.kind === "plan");
  if (!plan) return undefined;
  const compute = items.find(({ price }) => price.metadata.kind === "compute");
  const coupon = couponOf(subscription);
  const paymentMethod = paymentMethodOf(subscription);
  return {
    id: subscription.id,
    accountId,
    status: subscription.status,
    tier: plan.price.metadata.tierId ?? "",
    cadence: plan.price.recurring?.interval === "year" ? "annual" : "monthly",
    priceVersion: plan.price.metadata.priceVersion ?? "",
    created: date(subscription.created),
    currentPeriodEnd: date(plan.current_period_end),
    ...(compute && {
      compute: {
        item: compute.id,
        start: date(compute.current_period_start),
        end: date(compute.current_period_end),
      },
    }),
    cancelAtPeriodEnd: subscription.cancel_at_period_end || subscription.cancel_at !== null,
    ...(subscription.ended_at !== null && { endedAt: date(subscription.ended_at) }),
    ...(coupon && { coupon }),
    ...(subscription.metadata.promotionCode && { promotionCode: subscription.metadata.promotionCode }),
    items: items.filter(isShown).map(({ price, quantity }) => ({
      kind: price.metadata.kind ?? "",
      ref: refOf(price),
      quantity: quantity ?? 0,
      unitPriceUsd: unitPriceUsd(price),
    })),
    ...(paymentMethod && { paymentMethod }),
  };
}

function unitPriceUsd({ unit_amount, unit_amount_decimal }: Stripe.Price): number {
  return Number(unit_amount_decimal ?? unit_amount ?? 0) / 100;
}

function couponOf({ discounts }: Stripe.Subscription): Coupon | undefined {
  const first = discounts[0];
  if (first === undefined || typeof first === "string") return undefined;
  const { source, promotion_code: promotion } = first;
  if (!source.coupon || typeof source.coupon === "string") return undefined;
  return toCoupon(source.coupon, typeof promotion === "string" ? undefined : promotion?.code);
}

/** Returns a coupon of the provider as the API shows it; `code` is what users type. */
export function toCoupon(coupon: Stripe.Coupon, code = coupon.id): Coupon {
  return {
    code,
    label: coupon.name ?? code,
    ...(coupon.percent_off !== null && { percentOff: coupon.percent_off }),
    ...(coupon.amount_off !== null && { amountOffCents: coupon.amount_off }),
  };
}

/** Of a card, brand, last four digits and expiry are all that Berth ever keeps. */
function paymentMethodOf(subscription: Stripe.Subscription): PaymentMethod | undefined {
  const { customer, default_payment_method: own } = subscription;
  const ofCustomer =
    typeof customer === "object" && !customer.deleted
      ? customer.invoice_settings.default_payment_method
      : undefined;
  const method = [own, ofCustomer].find((one) => typeof one === "object" && one !== null);
  if (!method || typeof method === "string") return undefined;
  const { card, type } = method;
  if (!card) return { brand: type };
  return { brand: card.brand, last4: card.last4, expMonth: card.exp_month, expYear: card.exp_year };
}

/**
 * Returns an invoice as Berth records it; undefined for a draft, which is not shown. `computeItems` are the ids of
 * compute items of the customer's subscriptions, `waiting` the invoices whose payer has to confirm. Pure.
 */
export function mirrorInvoice(
  invoice: Stripe.Invoice,
  computeItems: ReadonlySet<string>,
  waiting: ReadonlySet<string>,
): MirroredInvoice | undefined {
  const { id, status, lines, billing_reason: reason } = invoice;
  if (id === undefined || status === null || status === "draft") return undefined;
  const subscription = invoice.parent?.subscription_details?.subscription;
  const starts = lines.data.map(({ period }) => period.start);
  const ends = lines.data.map(({ period }) => period.end);
  return {
    id,
    ...(subscription && {
      subscriptionId: typeof subscription === "string" ? subscription : subscription.id,
    }),
    kind: kindOf(reason, lines.data, computeItems),
    status,
    // The period of the invoice itself is only the time in which its items were gathered.
    periodStart: date(starts.length > 0 ? Math.min(...starts) : invoice.period_start),
    periodEnd: date(ends.length > 0 ? Math.max(...ends) : invoice.period_end),
    totalCents: invoice.total,
    ...(invoice.invoice_pdf && { pdfUrl: invoice.invoice_pdf }),
    ...(invoice.hosted_invoice_url && { hostedUrl: invoice.hosted_invoice_url }),
    created: date(invoice.created),
    ...(invoice.next_payment_attempt !== null && { nextAttempt: date(invoice.next_payment_attempt) }),
    attempts: invoice.attempt_count,
    actionRequired: waiting.has(id),
  };
}

function kindOf(
  reason: Stripe.Invoice["billing_reason"],
  lines: Stripe.InvoiceLineItem[],
  computeItems: ReadonlySet<string>,
): MirroredInvoice["kind"] {
  const isCompute = ({ parent }: Stripe.InvoiceLineItem) =>
    computeItems.has(parent?.subscription_item_details?.subscription_item ?? "");
  if (lines.length > 0 && lines.every(isCompute)) return "compute";
  if (reason === "subscription_create" || reason === "subscription_cycle") return "subscription";
  return reason === "subscription_update" ? "proration" : "manual";
}
