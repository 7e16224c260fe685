import { conflict, invalid } from "../../kit/rpc/refusals.ts";
import { type Cadence, type PaidTier, PLANS } from "../pricing/plans.ts";
import type { PlanChangeKind } from "./sql.ts";

/** A plan with how it is paid. */
export type Choice = { tier: PaidTier; cadence: Cadence };

/** What a requested change comes to: `none` leaves everything as it is. */
export type Decision = { kind: Exclude<PlanChangeKind, "resume"> | "none"; to: Choice };

/**
 * Returns what a change of plan or cadence comes to (docs/billing.md#changing-the-plan): a larger plan begins now
 * (`upgrade`), a smaller plan or another cadence when the period ends (`schedule`), and the present plan undoes what is
 * pending (`keep`). What is not requested stays as it is, or will be. Throws 409 plan_change_pending and 422 one_change. Pure.
 */
export function decide(current: Choice, pending: Choice | undefined, asked: Partial<Choice>): Decision {
  const to = { ...(pending ?? current), ...asked };
  if (isSame(to, current)) return { kind: pending ? "keep" : "none", to };
  if (PLANS[to.tier].monthlyCents <= PLANS[current.tier].monthlyCents)
    return { kind: pending && isSame(to, pending) ? "none" : "schedule", to };
  if (pending)
    throw conflict(
      "plan_change_pending",
      `A change is pending. Undo it first: choose ${current.tier}, ${current.cadence}.`,
    );
  if (to.cadence !== current.cadence)
    throw invalid(
      "cadence",
      "one_change",
      `The plan changes immediately, and the cadence when the period ends. Choose ${to.tier} with cadence ${current.cadence} first, then the cadence.`,
    );
  return { kind: "upgrade", to };
}

const isSame = (a: Choice, b: Choice) => a.tier === b.tier && a.cadence === b.cadence;
