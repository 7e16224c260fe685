import { TIERS } from "../accounts/plans.ts";

/** The model's plan retains this many versions, so that short schedules come to the end of it. */
export const RETAINED = 2;

// Before sql-history.ts reads it.
TIERS.free!.historyDepth = RETAINED;
