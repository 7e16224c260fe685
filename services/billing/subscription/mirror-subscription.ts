import type Stripe from "stripe";
import type { Cadence } from "../pricing/plans.ts";
import { type Pending, pendingOf } from "./pending.ts";

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
  /** The id of the promo code that its checkout applied. */
  promotionCode?: string;
  items: Item[];
  /** Plan and cadence from the next period on, if they change. */
  pending?: Pending;
  paymentMethod?: PaymentMethod;
};

/** What has to be expanded in a subscription for `mirrorSubscription`. */
export const EXPAND = [
  "default_payment_method",
  "discounts.source.coupon",
  "discounts.promotion_code",
  "schedule",
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
  const pending = subscription.ended_at === null ? pendingOf(subscription.schedule) : undefined;
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
    ...(pending && { pending }),
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
  const typed = typeof promotion === "string" ? undefined : promotion?.code;
  // A coupon for the rest of a code's term names the code.
  return toCoupon(source.coupon, typed ?? source.coupon.metadata?.code);
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
