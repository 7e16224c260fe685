import type { MirroredSubscription } from "./mirror-subscription.ts";
import { LIVE, SUBSCRIBED } from "./statuses.ts";

type Picked = { kept: MirroredSubscription | undefined; duplicates: MirroredSubscription[] };

/**
 * Returns the subscription that an account has, and those beside it that began later: of two that were paid at the same
 * time, the older one stays (docs/billing.md#subscribing). Pure.
 */
export function pickSubscription(subscriptions: MirroredSubscription[]): Picked {
  const live = subscriptions.filter(({ status }) => LIVE.includes(status)).sort(byAge);
  const kept = live.find(({ status }) => SUBSCRIBED.includes(status)) ?? live[0];
  return { kept, duplicates: kept ? live.slice(live.indexOf(kept) + 1) : [] };
}

function byAge(a: MirroredSubscription, b: MirroredSubscription): number {
  return a.created.getTime() - b.created.getTime() || (a.id < b.id ? -1 : 1);
}
