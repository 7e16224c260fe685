import type Stripe from "stripe";
import type { Pool } from "../../kit/postgres/db.ts";
import type { ReadMembers } from "../accounts/read-members.ts";
import { deleteSeatCheck, findSeatCheck } from "../due/seat-checks-sql.ts";
import { lookupKey } from "../pricing/keys.ts";
import { extraSeats, isPaidTier, type PaidTier } from "../pricing/plans.ts";
import type { PriceId } from "../pricing/price-ids.ts";
import { putSchedule } from "../schedule/put-schedule.ts";
import type { Provider } from "../stripe/provider.ts";
import { pendingOf } from "../subscription/pending.ts";
import { findSubscription, type SubscriptionRow } from "../subscription/sql.ts";
import { SUBSCRIBED } from "../subscription/statuses.ts";
import { seatSteps } from "./seat-steps.ts";
import { findPaidSeats, putPaidSeats } from "./sql.ts";

type Deps = { pool: Pool; provider: Provider; priceId: PriceId; readMembers: ReadMembers };

/**
 * Has an account's subscription bill the members that the account has now, if they changed since. Returns whether the
 * subscription was changed. To be called under the account's lock; the next call resumes one that was
 * interrupted. Throws 502 payment_provider_unavailable, and 503 while identity is away.
 */
export type AdjustSeats = (accountId: string) => Promise<boolean>;

export function createAdjustSeats({ pool, provider, priceId, readMembers }: Deps): AdjustSeats {
  return async (accountId) => {
    const revision = await findSeatCheck(pool, accountId);
    if (revision === undefined) return false;
    const found = await findSubscription(pool, accountId);
    const isBilled = found && SUBSCRIBED.includes(found.status) && isPaidTier(found.tier);
    const changed = isBilled ? await adjust(found, found.tier as PaidTier) : false;
    await deleteSeatCheck(pool, accountId, revision);
    return changed;
  };

  async function adjust({ id, accountId, cadence }: SubscriptionRow, tier: PaidTier): Promise<boolean> {
    const { handle, count } = await readMembers(accountId);
    if (handle === "") return false;
    const subscription = await read(id);
    const item = itemOf(subscription, "seat");
    const current = item?.quantity ?? 0;
    const plan = itemOf(subscription, "plan")!;
    const until = new Date(plan.current_period_end * 1_000);
    const paid = Math.max(current, await findPaidSeats(pool, id, { until, tier }));
    const steps = seatSteps({ current, paid, wanted: extraSeats(tier, count), cadence });
    // Recorded before fewer are billed: they stay paid until the end of the period.
    if (steps.length > 0) await putPaidSeats(pool, id, { until, quantity: paid, tier });
    // A subscription keeps the price list at which it was bought.
    const price = await priceId(lookupKey("seat", tier, cadence, plan.price.metadata.priceVersion));
    for (const step of steps)
      await provider.ask((stripe) =>
        item
          ? stripe.subscriptionItems.update(item.id, step)
          : stripe.subscriptionItems.create({ subscription: id, price, ...step }),
      );
    return (await adjustPending(subscription, count, steps.length > 0)) || steps.length > 0;
  }

  function read(id: string): Promise<Stripe.Subscription> {
    return provider.ask((stripe) => stripe.subscriptions.retrieve(id, { expand: ["schedule"] }));
  }

  /** A change that is pending bills the members that its plan does not include. */
  async function adjustPending(
    subscription: Stripe.Subscription,
    count: number,
    isChanged: boolean,
  ): Promise<boolean> {
    const { id } = subscription;
    const pending = pendingOf(subscription.schedule);
    if (!pending || !isPaidTier(pending.tier)) return false;
    const { tier, cadence } = pending;
    const seats = extraSeats(tier, count);
    if (seats === pending.seats) return false;
    // The phase that runs bills the members of now.
    const current = isChanged ? await read(id) : subscription;
    await putSchedule({ pool, provider, priceId }, current, { tier, cadence, seats }, id);
    return true;
  }
}

/** Returns the item of a subscription that bills something. */
function itemOf({ items }: Stripe.Subscription, kind: "plan" | "seat"): Stripe.SubscriptionItem | undefined {
  return items.data.find(({ price }) => price.metadata.kind === kind);
}
