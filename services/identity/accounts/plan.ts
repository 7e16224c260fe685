import { timestampDate } from "@bufbuild/protobuf/wkt";
import { SuspensionChangedSchema, TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { type Handler, on } from "../../kit/events/handler.ts";
import { createEntitlements, type EntitlementsOf, planOf, quotaExceeded } from "../../kit/plans.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { type AccountRow, countMembers, findTier, setSuspension, setTier } from "./sql.ts";

export type DescribePlan = ReturnType<typeof createDescribePlan>;

/**
 * Returns the function that describes the plan of an account: its name, what follows from one that ended, and its limits;
 * what is unlimited is left out.
 */
export function createDescribePlan(config: Parameters<typeof createEntitlements>[0]) {
  const entitlementsOf = createEntitlements(config);
  const counted = (n: number) => (Number.isFinite(n) ? n : undefined);
  return ({ tier, graceUntil, suspended }: Pick<AccountRow, "tier" | "graceUntil" | "suspended">) => {
    const allowed = entitlementsOf(tier);
    const { quotas, buildMs, volumes, domains, runsAtOnce, buildsAtOnce } = allowed;
    const { uploadBytes, historyDepth, backupDays, storageGib } = allowed;
    const own = { uploadBytes, buildMinutes: buildMs / 60_000, historyDepth, backupDays };
    const all = {
      buildsAtOnce: counted(buildsAtOnce),
      addons: counted(volumes),
      storageGib: counted(storageGib),
      domains: counted(domains),
      runsAtOnce: counted(runsAtOnce),
      size: allowed.largestSize,
    };
    const limits = { ...own, ...all, ...quotas };
    const plan = {
      tier: planOf(config, tier),
      ...(graceUntil && { graceUntil }),
      ...(suspended && { suspended }),
    };
    return { plan, limits };
  };
}

/**
 * Throws 403 quota_exceeded with `limit` when the account's plan allows no more members. The caller holds the account's
 * lock.
 */
export async function requireSeat(tx: Tx, entitlementsOf: EntitlementsOf, accountId: string): Promise<void> {
  const { quotas } = entitlementsOf(await findTier(tx, accountId));
  if (!quotas || (await countMembers(tx, accountId)) < quotas.members) return;
  throw quotaExceeded(accountId, "members", quotas.members);
}

/** Handlers of the billing service's events. */
export const billingHandlers: Handler[] = [
  on(TierChangedSchema, async (tx, { accountId, tier, revision }) => {
    await setTier(tx, accountId, tier, revision);
  }),
  on(SuspensionChangedSchema, async (tx, { accountId, reason, graceUntil, revision }) => {
    const until = graceUntil && timestampDate(graceUntil);
    await setSuspension(tx, accountId, { reason: reason || undefined, graceUntil: until, revision });
  }),
];
