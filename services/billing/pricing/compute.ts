import { sizes } from "../../kit/sizes.ts";
import { NANO_PER_CENT } from "../money/nano-usd.ts";
import { isPaidTier, PLANS } from "./plans.ts";

/** What compute costs a second, in nano-USD: billionths of a dollar. */
const CPU = 6_000;
const GIB_MEMORY = 3_000;
const GIB_DISK = 60;

/** GiB of disk of one replica, by type of service. */
const DISK: Record<string, number> = { web: 0, worker: 0, cron: 0, postgres: 1, redis: 1 };

/** What may be used of free accounts before owners are warned. Paid plans have their credit. */
const FREE_BUDGET_CENTS = 1_000;

/**
 * Returns what a second of one replica costs, in nano-USD (docs/billing.md#usage).
 *
 * @throws when the price list has no such type or size.
 */
export function rateOf(type: string, size: string): bigint {
  const disk = DISK[type];
  const { cpu, memory } = (sizes as Record<string, { cpu: number; memory: number }>)[size] ?? {};
  if (disk === undefined || cpu === undefined || memory === undefined)
    throw new Error(`The price list has no service of type ${type} and size ${size}.`);
  return BigInt((cpu * CPU) / 1_000 + (memory * GIB_MEMORY) / 1_024 + disk * GIB_DISK);
}

/** Returns what the allowance pays of each second of the covered service of a type: one replica of the smallest size. */
export function freeRateOf(type: string): bigint {
  return rateOf(type, "nano");
}

/** Whether a plan has the allowance. */
export function hasAllowance(tier: string): boolean {
  return tier !== "enterprise";
}

/** Returns what a plan pays of each period's compute, in nano-USD. */
export function creditOf(tier: string): bigint {
  return isPaidTier(tier) ? BigInt(PLANS[tier].creditCents) * NANO_PER_CENT : 0n;
}

/** Returns the same in cents. */
export function creditCents(tier: string): number {
  return isPaidTier(tier) ? PLANS[tier].creditCents : 0;
}

/** Returns the amount that spend alerts are shares of, in nano-USD; undefined when a plan has none. */
export function budgetOf(tier: string): bigint | undefined {
  if (tier === "enterprise") return undefined;
  return creditOf(tier) || BigInt(FREE_BUDGET_CENTS) * NANO_PER_CENT;
}
