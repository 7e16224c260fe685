import { emptySettlement, type Settlement } from "../settlement.ts";
import { type Cancellation, findCancellation } from "../sql.ts";
import { dependsOnSubscription, nextStep } from "./next-step.ts";
import { type Deps, perform } from "./perform.ts";

/**
 * Takes a cancellation as far as it goes, under the account's lock. Each step is recorded before the next begins, and each
 * may be done again: so whatever is killed, the next call resumes where it was. What it charges and credits is added to
 * the settlement. Throws 502 payment_provider_unavailable.
 */
export type ResumeCancellation = (cancellation: Cancellation, settlement?: Settlement) => Promise<void>;

export function createResumeCancellation(deps: Deps): ResumeCancellation {
  return async (cancellation, settlement = emptySettlement()) => {
    const { subscriptionId } = cancellation;
    for (let current: Cancellation | undefined = cancellation; current; ) {
      const subscription = dependsOnSubscription(current)
        ? await deps.provider.ask((stripe) => stripe.subscriptions.retrieve(subscriptionId))
        : undefined;
      const step = nextStep(current, subscription, Date.now());
      if (!step) return;
      await perform(deps, current, step, settlement);
      current = await findCancellation(deps.pool, subscriptionId);
    }
  };
}
