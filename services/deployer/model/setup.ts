import { TIERS } from "../accounts/plans.ts";

/** The model's plan retains this many versions, so that short schedules reach the limit. */
export const RETAINED = 2;

// Before deployments/retention-sql.ts reads it.
TIERS.free!.historyDepth = RETAINED;
