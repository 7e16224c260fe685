import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { type Handler, on } from "../../kit/events/handler.ts";
import { type EntitlementsOf, quotaExceeded, requireTier } from "../../kit/plans.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { countMembers, findTier, setTier } from "./sql.ts";

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
