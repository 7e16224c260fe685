import type Stripe from "stripe";
import type { Cadence } from "../pricing/plans.ts";

/** A change of plan or cadence that begins when the current period of the plan ends. */
export type Pending = {
  tier: string;
  cadence: Cadence;
  /** When it begins, in seconds. */
  at: number;
  /** What plan and members cost for each period from then on, before discounts. */
  renewalCents: number;
  /** The members beyond those that the plan includes. */
  seats: number;
};

/**
 * Returns the change that a schedule of the payment provider will make; undefined without one, when its last phase has begun,
 * or when it is not of Berth's. Pure.
 */
export function pendingOf(
  schedule: string | Stripe.SubscriptionSchedule | null | undefined,
): Pending | undefined {
  if (!schedule || typeof schedule === "string" || schedule.status !== "active") return undefined;
  const { current_phase: current, phases, metadata } = schedule;
  const last = phases.at(-1);
  if (!current || !last || last.start_date <= current.start_date) return undefined;
  const { tierId, cadence, seats, renewalCents } = metadata ?? {};
  if (!tierId || !cadence) return undefined;
  return {
    tier: tierId,
    cadence: cadence as Cadence,
    at: last.start_date,
    renewalCents: Number(renewalCents),
    seats: Number(seats),
  };
}
