import type Stripe from "stripe";
import { periodAt } from "../catalog/periods.ts";
import { isMetered } from "../catalog/prices.ts";
import { invalid } from "../http/errors.ts";
import { need } from "../http/lookup.ts";
import { toList } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";

export type ItemRequest = { price: string; quantity?: number | undefined; metadata?: Stripe.Metadata };

export type SubscriptionInput = {
  customer: string;
  items: ItemRequest[];
  billingMode: "classic" | "flexible";
  defaultPaymentMethod: string | null;
  metadata: Stripe.Metadata;
  description?: string | null;
  automaticTax?: boolean;
};

/** Adds an incomplete subscription without emitting an event. */
export function buildSubscription(world: World, input: SubscriptionInput): Stripe.Subscription {
  const { state, clock } = world;
  const now = clock.now();
  const id = newId("sub");
  const prices = input.items.map(({ price }, index) => needPrice(world, price, `items[${index}][price]`));
  checkIntervals(prices, input.billingMode);
  const items = input.items.map((item) => buildItem(world, id, item, now));
  const subscription = {
    id,
    object: "subscription",
    application: null,
    application_fee_percent: null,
    automatic_tax: { disabled_reason: null, enabled: input.automaticTax ?? false, liability: null },
    billing_cycle_anchor: now,
    billing_cycle_anchor_config: null,
    billing_mode: {
      flexible: input.billingMode === "flexible" ? { proration_discounts: "itemized" } : null,
      type: input.billingMode,
      updated_at: now,
    },
    billing_schedules: [],
    billing_thresholds: null,
    cancel_at: null,
    cancel_at_period_end: false,
    canceled_at: null,
    cancellation_details: { comment: null, feedback: null, feedback_option: null, reason: null },
    collection_method: "charge_automatically",
    created: now,
    currency: "usd",
    customer: input.customer,
    customer_account: null,
    days_until_due: null,
    default_payment_method: input.defaultPaymentMethod,
    default_source: null,
    default_tax_rates: [],
    description: input.description ?? null,
    discounts: [],
    ended_at: null,
    invoice_settings: {
      account_tax_ids: null,
      custom_fields: null,
      description: null,
      footer: null,
      issuer: { type: "self" },
    },
    items: toList(items, `/v1/subscription_items?subscription=${id}`),
    latest_invoice: null,
    livemode: false,
    managed_payments: null,
    metadata: input.metadata,
    next_pending_invoice_item_invoice: null,
    on_behalf_of: null,
    pause_collection: null,
    payment_settings: {
      payment_method_options: null,
      payment_method_types: null,
      save_default_payment_method: "off",
    },
    pending_invoice_item_interval: null,
    pending_setup_intent: null,
    pending_update: null,
    schedule: null,
    start_date: now,
    status: "incomplete",
    test_clock: null,
    transfer_data: null,
    trial_end: null,
    trial_settings: {
      end_behavior: { billing_cycle_anchor: null, missing_payment_method: "create_invoice" },
    },
    trial_start: null,
  } satisfies Stripe.Subscription;
  state.subscriptions.set(id, subscription);
  return subscription;
}

/** Returns a new item, whose period is counted from the subscription's anchor. */
export function buildItem(
  world: World,
  subscription: string,
  { price: priceId, quantity, metadata = {} }: ItemRequest,
  anchor: number,
): Stripe.SubscriptionItem {
  const price = needPrice(world, priceId, "price");
  if (isMetered(price) && quantity !== undefined)
    throw invalid("You cannot set the quantity for metered plans.", "quantity");
  const now = world.clock.now();
  const { start, end } = periodAt(anchor, price.recurring!, now);
  return {
    id: newId("si", 14),
    object: "subscription_item",
    billing_thresholds: null,
    created: now,
    current_period_end: end,
    // Usage before a metered item was added is not charged.
    current_period_start: isMetered(price) ? now : start,
    current_trial: null,
    discounts: [],
    metadata,
    plan: toPlan(price),
    price,
    ...(!isMetered(price) && { quantity: quantity ?? 1 }),
    subscription,
    tax_rates: [],
  } satisfies Stripe.SubscriptionItem;
}

/** Returns a price that can be subscribed to. */
export function needPrice({ state }: World, id: string, param: string): Stripe.Price {
  const price = need(state.prices, "price", id, param);
  if (!price.active)
    throw invalid("The price specified is inactive. This field only accepts active prices.", param);
  if (!price.recurring)
    throw invalid(
      "The price specified is set to `type=one_time` but this field only accepts recurring prices.",
      param,
    );
  return price;
}

/** Refuses items that are billed at different intervals, unless the subscription is flexible. */
export function checkIntervals(prices: Stripe.Price[], mode: string): void {
  const intervals = new Set(
    prices.map(({ recurring }) => `${recurring!.interval_count} ${recurring!.interval}`),
  );
  if (intervals.size > 1 && mode !== "flexible")
    throw invalid(
      "All prices must have the same recurring.interval and recurring.interval_count, unless billing_mode is flexible.",
      "items",
    );
}

/** Returns a price in the older form `plan`, which items still have. */
export function toPlan(price: Stripe.Price): Stripe.Plan {
  const { interval, interval_count, meter, usage_type } = price.recurring!;
  return {
    id: price.id,
    object: "plan",
    active: price.active,
    amount: price.unit_amount,
    amount_decimal: price.unit_amount_decimal,
    billing_scheme: "per_unit",
    created: price.created,
    currency: price.currency,
    interval,
    interval_count,
    livemode: false,
    metadata: price.metadata,
    meter,
    nickname: price.nickname,
    product: price.product as string,
    tiers_mode: null,
    transform_usage: null,
    trial_period_days: null,
    usage_type,
  } satisfies Stripe.Plan;
}
