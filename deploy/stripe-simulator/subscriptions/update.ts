import type Stripe from "stripe";
import { isMetered } from "../catalog/prices.ts";
import { toDiscountSources } from "../catalog/promotion-codes.ts";
import { declined, invalid } from "../http/errors.ts";
import { need, needCustomer } from "../http/lookup.ts";
import { mergeMetadata } from "../http/params.ts";
import { LEAST_CHARGE } from "../invoices/finalize.ts";
import { previewChange } from "../invoices/preview.ts";
import { idOf, type World } from "../state/world.ts";
import { setCancellationDetails } from "./cancel.ts";
import { addDiscount, clearDiscounts } from "./discounts.ts";
import { addItem, changeItem, invoiceProrations, removeItem } from "./items.ts";

type Params = Stripe.SubscriptionUpdateParams;

/** Changes a subscription. */
export function updateSubscription(
  world: World,
  subscription: Stripe.Subscription,
  params: Params,
): Stripe.Subscription {
  const { default_payment_method: method, description } = params;
  if (method !== undefined)
    need(world.state.paymentMethods, "PaymentMethod", method, "default_payment_method");
  requireFreeEnd(subscription, params);
  requireDate(subscription, params);
  requirePayable(world, subscription, params);
  const replaced = toSources(world, subscription, params.discounts);
  changeItems(world, subscription, params);
  if (replaced !== undefined) {
    clearDiscounts(world, subscription);
    subscription.discounts = replaced.map((source) => addDiscount(world, subscription, source));
  }
  if (method !== undefined) subscription.default_payment_method = method;
  if (description !== undefined) subscription.description = description || null;
  subscription.metadata = mergeMetadata(subscription.metadata, params.metadata);
  if (params.cancellation_details) setCancellationDetails(subscription, params.cancellation_details);
  setEnd(world, subscription, params);
  world.emit("customer.subscription.updated", subscription);
  return subscription;
}

/** As at Stripe: the end of a subscription with a schedule is the schedule's. */
function requireFreeEnd(
  { schedule }: Stripe.Subscription,
  { cancel_at, cancel_at_period_end }: Params,
): void {
  if (schedule === null || (cancel_at === undefined && cancel_at_period_end === undefined)) return;
  throw invalid(
    `The subscription is managed by the subscription schedule \`${idOf(schedule)}\`, and updating any cancelation behavior directly is not allowed. Please update the schedule instead.`,
    "cancel_at_period_end",
  );
}

function requireDate({ items }: Stripe.Subscription, { proration_date: at }: Params): void {
  if (at === undefined) return;
  const changing = items.data.filter(({ price }) => !isMetered(price));
  if (changing.every((item) => item.current_period_start <= at && at <= item.current_period_end)) return;
  throw invalid(
    `Invalid proration_date ${at}: must be within the current period of the subscription.`,
    "proration_date",
  );
}

/** As at Stripe: with `error_if_incomplete`, a change whose invoice would not be paid is not made. */
function requirePayable(world: World, subscription: Stripe.Subscription, params: Params): void {
  if (params.payment_behavior !== "error_if_incomplete" || params.proration_behavior !== "always_invoice")
    return;
  const { total } = previewChange(world, subscription, params.items ?? [], params.proration_date);
  const customer = needCustomer(world.state, idOf(subscription.customer));
  if (total + customer.balance < LEAST_CHARGE) return;
  const method = subscription.default_payment_method ?? customer.invoice_settings.default_payment_method;
  if (!method)
    throw invalid(
      "This customer has no attached payment source or default payment method.",
      "default_payment_method",
      "resource_missing",
    );
  const outcome = world.state.cardOutcomes.get(idOf(method));
  if (outcome === "needs_action") throw declined("subscription_payment_intent_requires_action");
  if (outcome !== "succeeds") throw declined("generic_decline");
}

/** Returns what the discounts are replaced with; an absent or empty list changes nothing, the empty string clears. */
function toSources(world: World, subscription: Stripe.Subscription, discounts: Params["discounts"]) {
  if (discounts === "") return [];
  if (!discounts || discounts.length === 0) return undefined;
  return toDiscountSources(world, discounts, idOf(subscription.customer));
}

function changeItems(world: World, subscription: Stripe.Subscription, params: Params): void {
  const behavior = params.proration_behavior ?? "create_prorations";
  const settlement = { behavior, at: params.proration_date };
  for (const { id, price, quantity, deleted, metadata } of params.items ?? []) {
    const changed = metadata === undefined ? undefined : mergeMetadata({}, metadata);
    if (id === undefined) {
      if (price === undefined) throw invalid("Missing required param: items[0][price].", "items[0][price]");
      addItem(world, subscription, { price, quantity, metadata: changed ?? {} }, settlement);
    } else {
      const item = need(
        new Map(subscription.items.data.map((one) => [one.id, one])),
        "subscription_item",
        id,
        "items",
      );
      if (deleted) removeItem(world, subscription, item, settlement);
      else changeItem(world, subscription, item, { price, quantity, metadata: changed }, settlement);
    }
  }
  if (params.items && behavior === "always_invoice") invoiceProrations(world, subscription);
}

/** Sets when the subscription ends by itself: at a time, at the end of the earliest period of its items, or never. */
function setEnd({ clock }: World, subscription: Stripe.Subscription, params: Params): void {
  const { cancel_at, cancel_at_period_end } = params;
  const ends = subscription.items.data.map((item) => item.current_period_end);
  if (cancel_at !== undefined) {
    if (cancel_at === "max_period_end") subscription.cancel_at = Math.max(...ends);
    else if (cancel_at === "min_period_end") subscription.cancel_at = Math.min(...ends);
    else subscription.cancel_at = Number(cancel_at) || null;
    subscription.cancel_at_period_end = false;
  }
  if (cancel_at_period_end !== undefined) {
    subscription.cancel_at_period_end = cancel_at_period_end;
    subscription.cancel_at = cancel_at_period_end ? Math.min(...ends) : null;
  }
  if (cancel_at !== undefined || cancel_at_period_end !== undefined)
    subscription.canceled_at = subscription.cancel_at === null ? null : clock.now();
}
