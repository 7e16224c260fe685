import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { type Handler, on } from "../../kit/events/handler.ts";
import {
  createEntitlements,
  type EntitlementsOf,
  planOf,
  quotaExceeded,
  requireTier,
} from "../../kit/plans.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { countMembers, findTier, setTier } from "./sql.ts";

export type DescribePlan = ReturnType<typeof createDescribePlan>;

/** Returns what an account of a plan says about it: its name, and what it allows. What is not limited is left out. */
export function createDescribePlan(config: Parameters<typeof createEntitlements>[0]) {
  const entitlementsOf = createEntitlements(config);
  const counted = (n: number) => (Number.isFinite(n) ? n : undefined);
  return (tier: string | null) => {
    const { quotas, buildMs, volumes, buildsAtOnce, uploadBytes, historyDepth } = entitlementsOf(tier);
    const own = { uploadBytes, buildMinutes: buildMs / 60_000, historyDepth };
    const limits = { ...own, buildsAtOnce: counted(buildsAtOnce), addons: counted(volumes), ...quotas };
    return { plan: { tier: planOf(config, tier) }, limits };
  };
}

/**
 * Throws 403 quota_exceeded with `limit` when the account's plan allows no further member. The caller holds the
 * account's lock.
 */
export async function requireSeat(tx: Tx, entitlementsOf: EntitlementsOf, accountId: string): Promise<void> {
  const { quotas } = entitlementsOf(await findTier(tx, accountId));
  if (!quotas || (await countMembers(tx, accountId)) < quotas.members) return;
  throw quotaExceeded(accountId, "members", quotas.members);
}

/** Handlers of the billing service's events. */
export const billingHandlers: Handler[] = [
  on(TierChangedSchema, async (tx, { accountId, tier, revision }) => {
    await setTier(tx, accountId, requireTier(tier), revision);
  }),
];
