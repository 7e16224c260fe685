import type Stripe from "stripe";
import { idOf, type World } from "../state/world.ts";
import { subscriptionOf } from "./charge.ts";

/** Sets a subscription active again once all its invoices are paid. */
export function restoreSubscription(world: World, subscription: Stripe.Subscription): void {
  if (!["incomplete", "past_due", "unpaid"].includes(subscription.status)) return;
  const isOwing = [...world.state.invoices.values()].some(
    (invoice) => invoice.status === "open" && subscriptionOf(world, invoice)?.id === subscription.id,
  );
  if (!isOwing) setStatus(world, subscription, "active");
}

export function setStatus(
  world: World,
  subscription: Stripe.Subscription,
  status: Stripe.Subscription.Status,
): void {
  const previous = { status: subscription.status };
  subscription.status = status;
  const customer = world.state.customers.get(idOf(subscription.customer));
  if (customer) customer.delinquent = status === "past_due";
  world.emit("customer.subscription.updated", subscription, previous);
}

/** Ends a subscription now. Its finalized invoices stay open, and are collected only on request. */
export function endSubscription(
  world: World,
  subscription: Stripe.Subscription,
  reason: Stripe.Subscription.CancellationDetails.Reason,
): void {
  const now = world.clock.now();
  subscription.status = "canceled";
  subscription.canceled_at ??= now;
  subscription.ended_at = now;
  subscription.cancellation_details = {
    comment: null,
    feedback: null,
    feedback_option: null,
    ...subscription.cancellation_details,
    reason,
  };
  const schedule = world.state.schedules.get(idOf(subscription.schedule ?? ""));
  if (schedule) Object.assign(schedule, { status: "canceled", canceled_at: now, current_phase: null });
  for (const invoice of world.state.invoices.values()) {
    if (subscriptionOf(world, invoice)?.id !== subscription.id || invoice.status !== "open") continue;
    invoice.auto_advance = false;
    invoice.next_payment_attempt = null;
  }
  world.emit("customer.subscription.deleted", subscription);
}
