import type { ConnectError } from "@connectrpc/connect";
import { type ConfigOf, choice } from "./process/config.ts";
import { refuse } from "./rpc/errors.ts";
import type { sizes } from "./sizes.ts";

/** The plans, smallest first (docs/plans.md#plans). What they cost is known to billing alone. */
export const TIERS = ["free", "pro", "team", "enterprise"] as const;
export type Tier = (typeof TIERS)[number];

/** How much of something an account may have. What a larger plan left is kept. */
export type Quotas = {
  projects: number;
  servicesPerType: number;
  /** Of each service. */
  replicas: number;
  /** The largest size of a service. */
  size: keyof typeof sizes;
  members: number;
};

/** What an account's plan allows. */
export type Entitlements = {
  uploadBytes: number;
  buildMs: number;
  /** How many versions that were live are retained. */
  historyDepth: number;
  /** How many of the installation's builds may be the account's. */
  buildsAtOnce: number;
  /** Undefined when nothing is counted. */
  quotas: Quotas | undefined;
};

/** Returns what a plan allows; without one, what the default plan does. */
export type EntitlementsOf = (tier: string | null | undefined) => Entitlements;

const PAID = { uploadBytes: 500 * 1024 ** 2, buildMs: 30 * 60_000, quotas: undefined };

const ENTITLEMENTS: Record<Tier, Entitlements> = {
  free: {
    uploadBytes: 250 * 1024 ** 2,
    buildMs: 15 * 60_000,
    historyDepth: 5,
    buildsAtOnce: 1,
    quotas: { projects: 1, servicesPerType: 1, replicas: 1, size: "nano", members: 1 },
  },
  pro: { ...PAID, historyDepth: 20, buildsAtOnce: 2 },
  team: { ...PAID, historyDepth: 100, buildsAtOnce: 5 },
  enterprise: { ...PAID, historyDepth: 500, buildsAtOnce: Infinity },
};

/** The settings of every process that enforces plans. */
export const planFields = {
  /** The plan of an account that billing has said nothing about. */
  defaultTier: choice("DEFAULT_TIER", TIERS, "enterprise"),
  /** Whether quotas and builds at once are limited; if not, only uploads, build time and history are by plan. */
  planQuotas: choice("PLAN_QUOTAS", ["on", "off"] as const, "on"),
};

/** Returns what plans allow in an installation with these settings. */
export function createEntitlements(config: ConfigOf<typeof planFields>): EntitlementsOf {
  return (tier) => {
    // A newer version may have recorded a plan that this one does not know.
    const allowed = ENTITLEMENTS[tier as Tier] ?? ENTITLEMENTS[config.defaultTier];
    return config.planQuotas === "on" ? allowed : { ...allowed, quotas: undefined, buildsAtOnce: Infinity };
  };
}

/** Returns the plan of this name. Throws when there is none. */
export function requireTier(name: string): Tier {
  const tier = TIERS.find((one) => one === name);
  if (!tier) throw new Error(`unknown plan ${name}`);
  return tier;
}

/** Returns a 403 quota_exceeded with the limit and how to get more. `what` is in the plural: "projects". */
export function quotaExceeded(accountId: string, what: string, limit: number | string): ConnectError {
  const message = `On the free plan, ${what} are limited to ${limit}. For more, an owner can subscribe at POST /accounts/${accountId}/subscription.`;
  return refuse(403, "quota_exceeded", message, { context: { limit } });
}
