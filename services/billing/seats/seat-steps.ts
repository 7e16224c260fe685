import type Stripe from "stripe";
import type { Cadence } from "../pricing/plans.ts";

type SeatStep = {
  quantity: number;
  proration_behavior: NonNullable<Stripe.SubscriptionItemUpdateParams["proration_behavior"]>;
};

type Seats = {
  /** Billed from the next renewal on, as it stands. */
  current: number;
  /** Paid until the end of the period. */
  paid: number;
  wanted: number;
  cadence: Cadence;
};

/**
 * Returns how the billed seats become those that are wanted (docs/billing.md#seats). Seats up to those that are paid cost
 * nothing until the next renewal; of others the rest of the period is charged. Pure.
 */
export function seatSteps({ current, paid, wanted, cadence }: Seats): SeatStep[] {
  const steps: SeatStep[] = [];
  const uncharged = Math.min(wanted, Math.max(current, paid));
  if (uncharged !== current) steps.push({ quantity: uncharged, proration_behavior: "none" });
  if (wanted > uncharged)
    steps.push({
      quantity: wanted,
      proration_behavior: cadence === "annual" ? "always_invoice" : "create_prorations",
    });
  return steps;
}
