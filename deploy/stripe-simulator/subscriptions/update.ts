import type Stripe from "stripe";
import { toDiscountSources } from "../catalog/promotion-codes.ts";
import { invalid } from "../http/errors.ts";
import { mergeMetadata } from "../http/params.ts";
import { idOf, need, type World } from "../state/world.ts";
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

/** Returns what the discounts are replaced with; an absent or empty list changes nothing, the empty string clears. */
function toSources(world: World, subscription: Stripe.Subscription, discounts: Params["discounts"]) {
  if (discounts === "") return [];
  if (!discounts || discounts.length === 0) return undefined;
  return toDiscountSources(world, discounts, idOf(subscription.customer));
}

function changeItems(world: World, subscription: Stripe.Subscription, params: Params): void {
  const behavior = params.proration_behavior ?? "create_prorations";
  for (const { id, price, quantity, deleted, metadata } of params.items ?? []) {
    const changed = metadata === undefined ? undefined : mergeMetadata({}, metadata);
    if (id === undefined) {
      if (price === undefined) throw invalid("Missing required param: items[0][price].", "items[0][price]");
      addItem(world, subscription, { price, quantity, metadata: changed ?? {} }, behavior);
    } else {
      const item = need(
        new Map(subscription.items.data.map((one) => [one.id, one])),
        "subscription_item",
        id,
        "items",
      );
      if (deleted) removeItem(world, subscription, item, behavior);
      else changeItem(world, subscription, item, { price, quantity, metadata: changed }, behavior);
    }
  }
  if (params.items && behavior === "always_invoice") invoiceProrations(world, subscription);
}

/** Sets when the subscription ends by itself: at a time, or at the end of the earliest period of its items, or never. */
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
