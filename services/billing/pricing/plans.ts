/** What the plans that can be bought cost, and what they include. Amounts in cents of a US dollar. */
export type Plan = {
  monthlyCents: number;
  /** Members that the price includes. */
  seats: number;
  /** Of each further member, a month. */
  seatCents: number;
  /** What the plan pays of each period's compute. */
  creditCents: number;
};

export type PaidTier = "pro" | "team";
export type Cadence = "monthly" | "annual";

/** The plans that owners can buy themselves (docs/billing.md#plans). */
export const PLANS: Record<PaidTier, Plan> = {
  pro: { monthlyCents: 2_000, seats: 3, seatCents: 1_000, creditCents: 1_000 },
  team: { monthlyCents: 10_000, seats: 10, seatCents: 1_000, creditCents: 5_000 },
};

/** A year costs as much as this many months. */
export const ANNUAL_MONTHS = 10;

export const isPaidTier = (tier: string): tier is PaidTier => Object.hasOwn(PLANS, tier);

/** Returns what one unit costs for each of its terms: a month, or a year. */
export function termCents(monthlyCents: number, cadence: Cadence): number {
  return cadence === "annual" ? monthlyCents * ANNUAL_MONTHS : monthlyCents;
}

/** Returns how many members a plan bills beyond those that it includes. */
export function extraSeats(tier: PaidTier, members: number): number {
  return Math.max(0, members - PLANS[tier].seats);
}
