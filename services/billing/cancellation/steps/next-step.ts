import { timestampDate, timestampMs } from "@bufbuild/protobuf/wkt";
import type Stripe from "stripe";
import { isInReview } from "../../refunds/refund.ts";
import type { Cancellation, Step } from "../sql.ts";
import { endOf, isOver } from "./end-subscription.ts";

/** After this, a request to end a subscription that was not answered has no effect. */
const UNCERTAIN_MS = 600_000;

/** What is to be done next of a cancellation. Each may be done again. */
export type NextStep =
  | { do: "end"; subscription: Stripe.Subscription }
  /** The provider has ended it, and its answer was lost. `at` is in seconds since 1970. */
  | { do: "record-end"; at: number }
  /** The request to end it had no effect: the subscription goes on. */
  | { do: "forget" }
  /** What is open is settled and what is to be refunded recorded; staff may have to release it. */
  | { do: "plan-refunds"; subscription: Stripe.Subscription; at: number; review: boolean }
  | { do: "make-refunds" };

/** At these the next step depends on what the provider says of the subscription. */
const DEPENDENT: Step[] = ["asked", "uncertain", "ended"];

/** Whether the subscription has to be read to know the next step of its cancellation. Pure. */
export const dependsOnSubscription = ({ step }: Pick<Cancellation, "step">) => DEPENDENT.includes(step);

/**
 * Returns what is to be done next of a cancellation; undefined when it is at its end, or waits for staff, the provider or a bank
 * (docs/billing.md#canceling). `subscription` is read where `dependsOnSubscription`; `now` is in milliseconds. Pure.
 */
export function nextStep(
  cancellation: Cancellation,
  subscription: Stripe.Subscription | undefined,
  now: number,
): NextStep | undefined {
  const { kind, step, askedAt, endedAt, released } = cancellation;
  if (step === "refunding") return { do: "make-refunds" };
  if (subscription === undefined) return undefined;
  if ((step === "asked" || step === "uncertain") && isOver(subscription))
    return { do: "record-end", at: endOf(subscription) };
  if (step === "asked") return { do: "end", subscription };
  if (step === "uncertain") {
    return now - timestampMs(askedAt) > UNCERTAIN_MS ? { do: "forget" } : undefined;
  }
  if (step !== "ended") return undefined;
  const at = timestampDate(endedAt!).getTime() / 1_000;
  const review = kind !== "duplicate" && !released && isInReview(subscription.created, at);
  return { do: "plan-refunds", subscription, at, review };
}
