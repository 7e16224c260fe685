import { NANO_PER_CENT } from "../money/nano-usd.ts";

/** What a free account may run beyond the allowance in a month, in nano-USD. More shows a fault: its quotas prevent it. */
const FREE_LIMIT = 100n * NANO_PER_CENT;

/**
 * Whether an account on a plan runs so much beyond the allowance (in nano-USD) that it gets a grace period, also if it
 * never had another plan (docs/billing.md#after-a-plan-ends).
 */
export function isBeyondAllowance(tier: string, beyond: bigint): boolean {
  return tier === "free" && beyond > FREE_LIMIT;
}
