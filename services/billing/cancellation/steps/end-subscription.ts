import type Stripe from "stripe";
import { endWithSchedule } from "../../schedule/put-schedule.ts";
import type { CancellationKind } from "../sql.ts";

/** A subscription with one of these statuses has ended. */
const OVER = ["canceled", "incomplete_expired"];

/** After a failure the subscription is read, so that the SDK need not retry the request. */
const ONCE = { maxNetworkRetries: 0 };

export const isOver = ({ status }: Pick<Stripe.Subscription, "status">) => OVER.includes(status);

/**
 * Ends a subscription at once, and returns it; also when it was ended before, or when the answer to that was lost. What
 * was used of compute until now is invoiced, unless it is a second subscription. Throws when it has not ended for certain.
 */
export async function endSubscription(
  stripe: Stripe,
  id: string,
  kind: CancellationKind,
): Promise<Stripe.Subscription> {
  try {
    return await stripe.subscriptions.cancel(id, { invoice_now: kind !== "duplicate", prorate: false }, ONCE);
  } catch (error) {
    const found = await stripe.subscriptions.retrieve(id, {}, ONCE);
    if (isOver(found)) return found;
    throw error;
  }
}

/** Returns when a subscription ended, in seconds since 1970. */
export function endOf({
  ended_at,
  canceled_at,
  created,
}: Pick<Stripe.Subscription, "ended_at" | "canceled_at" | "created">): number {
  return ended_at ?? canceled_at ?? created;
}

/** Has a subscription end with its period; a change of its plan is dropped. Throws when it does not end for certain. */
export async function cancelAtPeriodEnd(stripe: Stripe, subscription: Stripe.Subscription): Promise<void> {
  const { id, schedule } = subscription;
  try {
    if (schedule === null) await stripe.subscriptions.update(id, { cancel_at_period_end: true }, ONCE);
    else {
      const scheduleId = typeof schedule === "string" ? schedule : schedule.id;
      const found = await stripe.subscriptionSchedules.retrieve(scheduleId);
      await endWithSchedule(stripe, found, subscription);
    }
  } catch (error) {
    const found = await stripe.subscriptions.retrieve(id, {}, ONCE);
    if (!found.cancel_at_period_end && found.cancel_at === null) throw error;
  }
}
