import type Stripe from "stripe";
import { usageOf } from "../catalog/meters.ts";
import { periodAt } from "../catalog/periods.ts";
import { amountOf, isMetered } from "../catalog/prices.ts";
import { finalizeAndCollect } from "../collection/collect.ts";
import { invalid, missing } from "../http/errors.ts";
import { createDraft } from "../invoices/draft.ts";
import { addInvoiceItem, toPendingLines } from "../invoices/invoice-items.ts";
import { toItemLine } from "../invoices/lines.ts";
import { toProration } from "../invoices/prorate.ts";
import { idOf, type World } from "../state/world.ts";
import { buildItem, checkIntervals, type ItemRequest, needPrice, toPlan } from "./build.ts";
import { dropSpentDiscounts } from "./discounts.ts";

/** How a change is settled: `at` is the time from which it counts, now unless told otherwise. */
export type Settlement = { behavior: string; at?: number | undefined };
type Change = {
  price?: string | undefined;
  quantity?: number | undefined;
  metadata?: Stripe.Metadata | undefined;
};

/** Returns the subscription and the item with an id; an item of an ended subscription is not found. */
export function needItem({ state }: World, id: string) {
  for (const subscription of state.subscriptions.values()) {
    const item = subscription.items.data.find((candidate) => candidate.id === id);
    if (item && subscription.status !== "canceled") return { subscription, item };
  }
  throw missing("subscription_item", id);
}

/** Adds an item; unless the behavior is none, the rest of its period is charged. */
export function addItem(
  world: World,
  subscription: Stripe.Subscription,
  request: ItemRequest,
  { behavior, at }: Settlement,
): Stripe.SubscriptionItem {
  const item = buildItem(world, subscription.id, request, subscription.billing_cycle_anchor);
  const prices = subscription.items.data.map(({ price }) => price);
  if (prices.some(({ id }) => id === item.price.id))
    throw invalid(`Cannot add multiple subscription items with the same plan: ${item.price.id}.`, "price");
  checkIntervals([...prices, item.price], subscription.billing_mode.type);
  subscription.items.data.push(item);
  if (behavior !== "none") prorate(world, subscription, item, 1, at);
  return item;
}

/** Changes the price or the quantity of an item; unless the behavior is none, the rest of its period is settled. */
export function changeItem(
  world: World,
  subscription: Stripe.Subscription,
  item: Stripe.SubscriptionItem,
  { price, quantity, metadata }: Change,
  { behavior, at }: Settlement,
): void {
  const next = price === undefined ? item.price : needPrice(world, price, "price");
  if (isMetered(next) && quantity !== undefined)
    throw invalid("You cannot set the quantity for metered plans.", "quantity");
  const others = subscription.items.data.filter((other) => other !== item).map((other) => other.price);
  checkIntervals([...others, next], subscription.billing_mode.type);
  const isOther = next.id !== item.price.id || (quantity !== undefined && quantity !== item.quantity);
  const isSettled = behavior !== "none" && isOther;
  if (isSettled) prorate(world, subscription, item, -1, at);
  if (next.recurring!.interval !== item.price.recurring!.interval) {
    // As at Stripe: another interval begins a new period at once.
    const { start, end } = periodAt(world.clock.now(), next.recurring!, world.clock.now());
    Object.assign(item, { current_period_start: start, current_period_end: end });
    subscription.billing_cycle_anchor = world.clock.now();
  }
  item.price = next;
  item.plan = toPlan(next);
  if (quantity !== undefined) item.quantity = quantity;
  if (metadata !== undefined) item.metadata = { ...item.metadata, ...metadata };
  if (isSettled) prorate(world, subscription, item, 1, at);
}

/** Removes an item; unless the behavior is none, the rest of its period is credited. */
export function removeItem(
  world: World,
  subscription: Stripe.Subscription,
  item: Stripe.SubscriptionItem,
  { behavior, at }: Settlement,
): void {
  if (subscription.items.data.length === 1)
    throw invalid("A subscription must have at least one active plan.", "id");
  if (behavior !== "none" && isMetered(item.price)) chargeUse(world, subscription, item);
  else if (behavior !== "none") prorate(world, subscription, item, -1, at);
  subscription.items.data = subscription.items.data.filter((other) => other !== item);
}

/** Adds the usage of a metered item until its removal to the next invoice. */
function chargeUse(world: World, subscription: Stripe.Subscription, item: Stripe.SubscriptionItem): void {
  const period = { start: item.current_period_start, end: world.clock.now() };
  const customer = idOf(subscription.customer);
  const quantity = usageOf(world, item.price.recurring!.meter!, customer, period);
  const line = { ...toItemLine(world, item, period), quantity, amount: amountOf(item.price, quantity) };
  addInvoiceItem(world, { customer, subscription: subscription.id, line });
}

function prorate(
  world: World,
  subscription: Stripe.Subscription,
  item: Stripe.SubscriptionItem,
  sign: 1 | -1,
  at: number | undefined,
): void {
  const line = toProration(world, item, { price: item.price, quantity: item.quantity ?? 1 }, sign, at);
  if (line)
    addInvoiceItem(world, { customer: idOf(subscription.customer), subscription: subscription.id, line });
}

/** Invoices and charges the pending items of a subscription at once. */
export function invoiceProrations(world: World, subscription: Stripe.Subscription): void {
  const customer = idOf(subscription.customer);
  const lines = toPendingLines(world, customer, subscription.id);
  if (lines.length === 0) return;
  const now = world.clock.now();
  const invoice = createDraft(world, {
    customer,
    subscription,
    reason: "subscription_update",
    lines,
    period: { start: now, end: now },
    autoAdvance: true,
  });
  finalizeAndCollect(world, invoice);
  dropSpentDiscounts(world, subscription, invoice);
}
