import { refuse } from "../../kit/rpc/refusals.ts";

/** Returns 404 subscription_not_found. */
export const noSubscription = () =>
  refuse(404, "subscription_not_found", "The account has no subscription. Subscribe with POST to this path.");
