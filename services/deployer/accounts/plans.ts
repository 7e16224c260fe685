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

/** Times in ms (docs/deployments.md#deadlines, docs/variables.md#delivery). */
export const times = {
  queueMs: 30 * 60_000,
  /** The free plan's. */
  buildMs: FREE.buildMs,
  applyMs: 5 * 60_000,
  /** Quiet time after a change of variables before services take it. */
  debounceMs: 2_000,
  /** They take it after this long even if changes keep coming. */
  debounceMaxMs: 10_000,
};

export type Times = typeof times;

export const UPLOAD_SECONDS = 900;
export const UPLOAD_TYPE = "application/gzip";
/** An uploaded object can be deployed for this long. */
export const UPLOAD_LIVES_MS = 24 * 3_600_000;
/** It is removed later than that: a build may still be reading it. */
export const UPLOAD_SWEEP_MS = UPLOAD_LIVES_MS + 2 * 3_600_000;
