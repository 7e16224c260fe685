import type Stripe from "stripe";
import { emitAll } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { putSeatCheck } from "../due/seat-checks-sql.ts";
import { isStripeError, type Provider } from "../stripe/provider.ts";
import { EXPAND, mirrorSubscription } from "../subscription/mirror-subscription.ts";
import { findRecordedSubscriptions, putSubscription } from "../subscription/sql.ts";
import { SUBSCRIBED } from "../subscription/statuses.ts";
import { beginsToBeBilled, subscriptionEvents } from "../subscription/subscription-events.ts";
import { dropAppliedCoupon } from "./applied-coupon.ts";
import { codeOf, redemptionsOf } from "./redemptions.ts";
import { putRedemptions } from "./sql.ts";

/** With these Stripe refuses to change a subscription that is over. */
const OVER = ["resource_missing", "invalid_canceled_subscription_fields"];

/** Returns a subscription as the provider has it now; undefined when nothing of it is paid any longer. */
export async function readSubscribed(
  provider: Provider,
  id: string,
): Promise<Stripe.Subscription | undefined> {
  const found = await provider.ask((stripe) => stripe.subscriptions.retrieve(id, { expand: EXPAND }));
  return SUBSCRIBED.includes(found.status) ? found : undefined;
}

/** Whether a subscription has the discount of a promo code. */
export function hasDiscount({ discounts }: Stripe.Subscription, promotionCodeId: string): boolean {
  return discounts.some((each) => typeof each !== "string" && codeOf(each) === promotionCodeId);
}

/** What a discount is made of: a promo code, or the coupon for the rest of one's term. */
export type DiscountSource = { promotion_code: string } | { coupon: string };

/** Takes a discount off a subscription from its next invoice on, in place of one that it has. */
export function setDiscount(
  provider: Provider,
  id: string,
  source: DiscountSource,
  ...expected: string[]
): Promise<Stripe.Subscription> {
  return update(provider, id, [source], expected);
}

/** Ends all discounts of a subscription. Returns it; undefined when it is over. */
export async function endDiscounts(provider: Provider, id: string): Promise<Stripe.Subscription | undefined> {
  try {
    return await update(provider, id, "", OVER);
  } catch (error) {
    if (OVER.some((code) => isStripeError(error, code))) return undefined;
    throw error;
  }
}

/** Records a subscription that was read or changed under its account's lock. */
export async function recordChanged(tx: Tx, accountId: string, changed: Stripe.Subscription): Promise<void> {
  const mirrored = mirrorSubscription(accountId, changed);
  if (!mirrored) return;
  const before = (await findRecordedSubscriptions(tx, [mirrored.id])).get(mirrored.id);
  await putSubscription(tx, mirrored);
  await dropAppliedCoupon(tx, mirrored);
  await putRedemptions(tx, accountId, redemptionsOf(changed));
  if (beginsToBeBilled(before, mirrored)) await putSeatCheck(tx, accountId);
  await emitAll(tx, subscriptionEvents(before, mirrored));
}

function update(
  provider: Provider,
  id: string,
  discounts: Stripe.SubscriptionUpdateParams["discounts"],
  expected: string[],
): Promise<Stripe.Subscription> {
  return provider.ask(
    (stripe) => stripe.subscriptions.update(id, { discounts, proration_behavior: "none", expand: EXPAND }),
    ...expected,
  );
}
