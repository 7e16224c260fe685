/** What an account's plan allows. */
export type Entitlements = {
  uploadBytes: number;
  buildMs: number;
  /** How many versions that were live are retained. */
  historyDepth: number;
};

const FREE: Entitlements = { uploadBytes: 250 * 1024 ** 2, buildMs: 15 * 60_000, historyDepth: 5 };
const PAID = { uploadBytes: 500 * 1024 ** 2, buildMs: 30 * 60_000 };

/** The plans (docs/plans.md#plans). */
export const TIERS: Record<string, Entitlements> = {
  free: FREE,
  pro: { ...PAID, historyDepth: 20 },
  team: { ...PAID, historyDepth: 100 },
  enterprise: { ...PAID, historyDepth: 500 },
};

/** Returns what a plan allows; without one, what the free plan allows. */
export function entitlementsOf(tier: string | null | undefined): Entitlements {
  return TIERS[tier ?? "free"] ?? FREE;
}
