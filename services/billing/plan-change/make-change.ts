import { timestampMs } from "@bufbuild/protobuf/wkt";
import type Stripe from "stripe";
import { audit } from "../../kit/events/audit.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { putSeatCheck } from "../due/seat-checks-sql.ts";
import { markCustomer } from "../due/sql.ts";
import { lookupKey } from "../pricing/keys.ts";
import type { PriceId } from "../pricing/price-ids.ts";
import { planItemOf, putSchedule, releaseSchedule } from "../schedule/put-schedule.ts";
import { putPaidSeats } from "../seats/sql.ts";
import { makeOnce } from "../stripe/make-once.ts";
import { isRefused, type Provider } from "../stripe/provider.ts";
import { pendingOf } from "../subscription/pending.ts";
import { LIVE } from "../subscription/statuses.ts";
import { movePlanChange, type PlanChange, type PlanChangeStep } from "./sql.ts";

type Deps = { pool: Pool; provider: Provider; priceId: PriceId };

/** After this, a change that was not made is given up: nobody expects to be charged any longer. */
const GIVEN_UP_MS = 600_000;

/** What the provider answers when a card does not pay. */
const DECLINED = [
  "card_declined",
  "expired_card",
  "incorrect_cvc",
  "processing_error",
  "authentication_required",
  "subscription_payment_intent_requires_action",
  "resource_missing",
];

/**
 * Makes a change that is requested, once, and returns how far it is then; to be called under the account's lock. A change
 * that the provider made before is found at the subscription. One that was not made for ten minutes is given up, as is one
 * whose subscription was canceled meanwhile; and one of which the outcome is not known is not made, but looked for. Throws
 * the provider's refusal, and 502 payment_provider_unavailable; in both cases it can be called again.
 */
export type MakeChange = (change: PlanChange) => Promise<PlanChangeStep>;

export function createMakeChange({ pool, provider, priceId }: Deps): MakeChange {
  return async (change) => {
    const subscription = await provider.ask((stripe) =>
      stripe.subscriptions.retrieve(change.subscriptionId, { expand: ["schedule"] }),
    );
    if (isMade(change, subscription)) return finish(change, subscription, "done");
    const isLate = Date.now() - timestampMs(change.askedAt) > GIVEN_UP_MS;
    if (isLate || isEnding(change, subscription)) return finish(change, subscription, "refused");
    if (change.step === "uncertain") return "uncertain";
    try {
      await make(change, subscription);
    } catch (error) {
      if (isRefused(error)) await finish(change, subscription, "refused");
      throw error;
    }
    return finish(change, subscription, "done");
  };

  async function make(change: PlanChange, subscription: Stripe.Subscription): Promise<void> {
    switch (change.kind) {
      case "upgrade":
        return upgrade(change, subscription);
      case "schedule":
        return putSchedule({ pool, provider, priceId }, subscription, change, change.id);
      case "keep":
        return provider.ask((stripe) => releaseSchedule(stripe, subscription));
      case "resume":
        await provider.ask((stripe) => goOn(stripe, subscription));
    }
  }

  /** Changes plan and members at once, or neither if the card does not pay. */
  async function upgrade(change: PlanChange, subscription: Stripe.Subscription): Promise<void> {
    const items = await upgradedItems(priceId, subscription, change);
    await makeOnce(
      { pool, provider },
      `plan:${change.id}`,
      (stripe, options) =>
        stripe.subscriptions.update(
          subscription.id,
          {
            items,
            proration_behavior: "always_invoice",
            proration_date: Math.floor(timestampMs(change.chargedFrom) / 1_000),
            payment_behavior: "error_if_incomplete",
            metadata: { planChange: change.id },
          },
          options,
        ),
      ...DECLINED,
    );
  }

  /** Records the outcome of a change, with its audit record; the customer is due to be read. */
  async function finish(
    change: PlanChange,
    subscription: Stripe.Subscription,
    step: "done" | "refused",
  ): Promise<PlanChangeStep> {
    const { customer } = subscription;
    const { id, accountId, subscriptionId, kind, tier, cadence, seats, requestedBy } = change;
    await transaction(pool, async (tx) => {
      if ((await movePlanChange(tx, id, step)) === 0 || step === "refused") return;
      if (kind === "upgrade") {
        const until = new Date(planItemOf(subscription).current_period_end * 1_000);
        await putPaidSeats(tx, subscriptionId, { until, quantity: seats, tier });
      }
      const entry = { service: "billing", accountId, action: ACTIONS[kind], target: subscriptionId };
      await audit(tx, requestedBy, { ...entry, metadata: { tier, cadence } });
      // Of a change that was interrupted, members may have come or gone since it was requested.
      await putSeatCheck(tx, accountId);
      await markCustomer(tx, typeof customer === "string" ? customer : customer.id);
    });
    return step;
  }
}

const ACTIONS: Record<PlanChange["kind"], string> = {
  upgrade: "subscription.change",
  schedule: "subscription.schedule_change",
  keep: "subscription.undo_change",
  resume: "subscription.undo_cancel",
};

/** Undoes whatever ends a subscription: a cancellation, the end of a schedule, or a date that staff set. */
async function goOn(stripe: Stripe, subscription: Stripe.Subscription): Promise<void> {
  const { id } = subscription;
  // Without its schedule, an end that the schedule had set is gone.
  await releaseSchedule(stripe, subscription);
  const { cancel_at_period_end: isSet, cancel_at: at } = await stripe.subscriptions.retrieve(id);
  if (isSet) await stripe.subscriptions.update(id, { cancel_at_period_end: false });
  else if (at !== null) await stripe.subscriptions.update(id, { cancel_at: "" });
}

/** Whether the provider has made a change. */
function isMade({ id, kind, tier, cadence }: PlanChange, subscription: Stripe.Subscription): boolean {
  const pending = pendingOf(subscription.schedule);
  switch (kind) {
    case "upgrade":
      return subscription.metadata.planChange === id;
    case "schedule":
      // Its members follow those of the account, also before it is recorded.
      return pending?.tier === tier && pending.cadence === cadence;
    case "keep":
      return subscription.schedule === null;
    case "resume":
      return !subscription.cancel_at_period_end && subscription.cancel_at === null;
  }
}

/** Whether a subscription is over, or ends although it was to go on with a change. */
function isEnding({ kind }: PlanChange, subscription: Stripe.Subscription): boolean {
  const { status, cancel_at_period_end: isCanceled, cancel_at: end } = subscription;
  return !LIVE.includes(status) || (kind !== "resume" && (isCanceled || end !== null));
}

/** Returns the items of a subscription that change with its plan: prices of the same list, by its cadence. */
export async function upgradedItems(
  priceId: PriceId,
  subscription: Stripe.Subscription,
  { tier, cadence, seats }: Pick<PlanChange, "tier" | "cadence" | "seats">,
): Promise<{ id?: string; price: string; quantity: number }[]> {
  const plan = planItemOf(subscription);
  const version = plan.price.metadata.priceVersion;
  const seat = subscription.items.data.find(({ price }) => price.metadata.kind === "seat");
  const planPrice = await priceId(lookupKey("plan", tier, cadence, version));
  const seatPrice = await priceId(lookupKey("seat", tier, cadence, version));
  return [
    { id: plan.id, price: planPrice, quantity: 1 },
    // An item of members that nobody takes any longer stays, as an item of 0.
    ...(seat || seats > 0 ? [{ ...(seat && { id: seat.id }), price: seatPrice, quantity: seats }] : []),
  ];
}
