import { createEntitlements, type EntitlementsOf } from "../../services/kit/plans.ts";

/** The model's plan retains this many versions, so that short schedules reach the limit. */
export const RETAINED = 2;
/** So that builds wait for each other. */
export const BUILDS_AT_ONCE = 1;

const plans = createEntitlements({
  defaultTier: "free",
  planQuotas: "off",
  planOpenPorts: {},
  planSizes: {},
  planStorage: {},
  planBackupDays: {},
});

export const entitlementsOf: EntitlementsOf = (tier) => ({ ...plans(tier), historyDepth: RETAINED });
