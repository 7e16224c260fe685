import type Stripe from "stripe";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Members } from "../accounts/members.ts";
import { lookupKey } from "../catalog/keys.ts";
import { extraSeats, isPaidTier, type PaidTier } from "../catalog/plans.ts";
import type { PriceId } from "../catalog/price-ids.ts";
import type { Provider } from "../stripe/provider.ts";
import { findSubscription, SUBSCRIBED, type SubscriptionRow } from "../subscription/sql.ts";
import { seatSteps } from "./seat-steps.ts";
import { deleteSeatCheck, findPaidSeats, findSeatCheck, putPaidSeats } from "./sql.ts";

type Deps = { pool: Pool; provider: Provider; priceId: PriceId; members: Members };

/**
 * Has an account's subscription bill the members that the account has now, if they changed since. Returns whether the
 * subscription was changed. To be called under the account's lock; what was killed within is carried on by the next
 * call. Throws 502 payment_provider_unavailable, and 503 while identity is away.
 */
export type AdjustSeats = (accountId: string) => Promise<boolean>;

export function createAdjustSeats({ pool, provider, priceId, members }: Deps): AdjustSeats {
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
    const { handle, count } = await members(accountId);
    if (handle === "") return false;
    const subscription = await provider.ask((stripe) => stripe.subscriptions.retrieve(id));
    const item = itemOf(subscription, "seat");
    const current = item?.quantity ?? 0;
    const plan = itemOf(subscription, "plan")!;
    const until = new Date(plan.current_period_end * 1_000);
    const paid = Math.max(current, await findPaidSeats(pool, id, until));
    const steps = seatSteps({ current, paid, wanted: extraSeats(tier, count), cadence });
    // Recorded before fewer are billed: they stay paid until the end of the period.
    if (steps.length > 0) await putPaidSeats(pool, id, until, paid);
    // A subscription keeps the price list at which it was bought.
    const price = await priceId(lookupKey("seat", tier, cadence, plan.price.metadata.priceVersion));
    for (const step of steps)
      await provider.ask((stripe) =>
        item
          ? stripe.subscriptionItems.update(item.id, step)
          : stripe.subscriptionItems.create({ subscription: id, price, ...step }),
      );
    return steps.length > 0;
  }
}

/** Returns the item of a subscription that bills something. */
function itemOf({ items }: Stripe.Subscription, kind: "plan" | "seat"): Stripe.SubscriptionItem | undefined {
  return items.data.find(({ price }) => price.metadata.kind === kind);
}
