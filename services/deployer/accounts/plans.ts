/** What an account may use by its plan. */
export type Entitlements = {
  uploadBytes: number;
  buildMs: number;
  /** How many of the versions that were live are retained, the newest of them. */
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

/** What a plan gives; the free one's where none is known. */
export function entitlementsOf(tier: string | null | undefined): Entitlements {
  return TIERS[tier ?? "free"] ?? FREE;
}
