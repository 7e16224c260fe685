import type Stripe from "stripe";
import { periodAt } from "../catalog/periods.ts";
import { isMetered } from "../catalog/prices.ts";
import { endSubscription } from "../collection/subscription-status.ts";
import { createDraft } from "../invoices/draft.ts";
import { toPendingLines } from "../invoices/invoice-items.ts";
import { toItemLine } from "../invoices/lines.ts";
import { idOf, type World } from "../state/world.ts";
import { dropSpentDiscounts } from "./discounts.ts";
import { draftFinalInvoice } from "./end.ts";
import { enterPhase } from "./schedules.ts";

/** How long the first invoice of a subscription may stay unpaid. */
const INCOMPLETE_SECONDS = 23 * 60 * 60;
const RUNNING = ["active", "past_due", "unpaid", "trialing"];

/** Returns when the next step of a subscription is due. */
export function nextStep({ status, created, cancel_at, items }: Stripe.Subscription): number | undefined {
  if (status === "incomplete") return created + INCOMPLETE_SECONDS;
  if (!RUNNING.includes(status)) return undefined;
  return Math.min(
    cancel_at ?? Number.POSITIVE_INFINITY,
    ...items.data.map((item) => item.current_period_end),
  );
}

/** Runs the step that is due: a subscription expires, ends, or begins the next period of its items. */
export function advance(world: World, subscription: Stripe.Subscription): void {
  const now = world.clock.now();
  if (subscription.status === "incomplete") expire(world, subscription);
  else if (subscription.cancel_at !== null && subscription.cancel_at <= now) {
    // One whose end is this moment is over for the last invoice as for a renewal.
    dropSpentDiscounts(world, subscription);
    draftFinalInvoice(world, subscription, true);
    endSubscription(world, subscription, "cancellation_requested");
  } else renew(world, subscription);
}

/** Begins the next period of the items whose period is over, and drafts its invoice. */
function renew(world: World, subscription: Stripe.Subscription): void {
  const now = world.clock.now();
  const before = subscription.items.data.filter((item) => item.current_period_end <= now);
  const past = new Map(before.map((item) => [item.id, toPeriod(item)]));
  const fresh = enterPhase(world, subscription);
  const due = before.filter((item) => subscription.items.data.includes(item));
  for (const item of due) {
    const next = periodAt(subscription.billing_cycle_anchor, item.price.recurring!, now);
    Object.assign(item, { current_period_start: next.start, current_period_end: next.end });
  }
  dropSpentDiscounts(world, subscription);
  const customer = idOf(subscription.customer);
  const first = past.values().next().value!;
  const invoice = createDraft(world, {
    customer,
    subscription,
    reason: "subscription_cycle",
    // Usage is billed after its period, everything else in advance.
    lines: [
      ...toPendingLines(world, customer, subscription.id),
      ...[...fresh, ...due].map((item) =>
        toItemLine(world, item, isMetered(item.price) ? past.get(item.id)! : toPeriod(item)),
      ),
    ],
    period: first,
    autoAdvance: true,
  });
  dropSpentDiscounts(world, subscription, invoice);
  world.emit("customer.subscription.updated", subscription);
}

function expire(world: World, subscription: Stripe.Subscription): void {
  subscription.status = "incomplete_expired";
  subscription.ended_at = world.clock.now();
  const invoice = world.state.invoices.get(idOf(subscription.latest_invoice ?? ""));
  if (invoice?.status === "open") {
    invoice.status = "void";
    invoice.status_transitions.voided_at = world.clock.now();
    world.emit("invoice.voided", invoice);
  }
  world.emit("customer.subscription.updated", subscription, { status: "incomplete" });
}

function toPeriod(item: Stripe.SubscriptionItem) {
  return { start: item.current_period_start, end: item.current_period_end };
}
