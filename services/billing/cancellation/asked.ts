import type Stripe from "stripe";
import type { Metered } from "../metering/report-before-end.ts";
import { type Provider, timeOf } from "../stripe/provider.ts";
import { type MirroredSubscription, mirrorSubscription } from "../subscription/mirror-subscription.ts";

/** A subscription as the provider has it, and the provider's time (s). */
export type Asked = { subscription: Stripe.Subscription; metered: Metered; at: number };

/** Reads a subscription from the provider, and what Berth would record of it; undefined if Berth did not sell it. */
export async function askFor(
  provider: Provider,
  accountId: string,
  id: string,
): Promise<Asked & { mirrored: MirroredSubscription | undefined }> {
  const found = await provider.ask((stripe) => stripe.subscriptions.retrieve(id));
  const mirrored = mirrorSubscription(accountId, found);
  return { subscription: found, mirrored, metered: meteredOf(found, accountId), at: timeOf(found) };
}

/** Returns what the compute of a subscription depends on. */
export function meteredOf(subscription: Stripe.Subscription, accountId: string): Metered {
  const { id: subscriptionId, customer } = subscription;
  const customerId = typeof customer === "string" ? customer : customer.id;
  const tier = mirrorSubscription(accountId, subscription)?.tier ?? "";
  return { subscriptionId, accountId, customerId, tier };
}

/** Whether the plan of a subscription is paid for a year. */
export function isAnnual({ items }: Pick<Stripe.Subscription, "items">): boolean {
  return items.data.some(
    ({ price }) => price.metadata.kind === "plan" && price.recurring?.interval === "year",
  );
}
