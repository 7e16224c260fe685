import type Stripe from "stripe";
import type { CancellationKind } from "./sql.ts";

/** A subscription in these has ended. */
const OVER = ["canceled", "incomplete_expired"];

/** Our own look at the subscription follows a failure, so that the SDK need not repeat it. */
const ONCE = { maxNetworkRetries: 0 };

export const isOver = ({ status }: Pick<Stripe.Subscription, "status">) => OVER.includes(status);

/**
 * Ends a subscription at once, and returns it; also when it was ended before, or when the answer to that was lost. What
 * was used of compute until now is invoiced with an annual one, which is paid. Throws when it has not ended for certain.
 */
export async function endSubscription(
  stripe: Stripe,
  id: string,
  kind: CancellationKind,
): Promise<Stripe.Subscription> {
  try {
    return await stripe.subscriptions.cancel(id, { invoice_now: kind === "annual", prorate: false }, ONCE);
  } catch (error) {
    const found = await stripe.subscriptions.retrieve(id, {}, ONCE);
    if (isOver(found)) return found;
    throw error;
  }
}

/** Returns when a subscription ended, in seconds since 1970. */
export function endOf({ ended_at, canceled_at, created }: Stripe.Subscription): number {
  return ended_at ?? canceled_at ?? created;
}

/** Lets a subscription end with its period. Throws when it does not for certain. */
export async function stopRenewal(stripe: Stripe, id: string): Promise<void> {
  try {
    await stripe.subscriptions.update(id, { cancel_at_period_end: true }, ONCE);
  } catch (error) {
    const found = await stripe.subscriptions.retrieve(id, {}, ONCE);
    if (!found.cancel_at_period_end) throw error;
  }
}
