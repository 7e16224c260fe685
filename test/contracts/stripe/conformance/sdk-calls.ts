import { catalogCalls } from "./calls-catalog.ts";
import { subscriptionCalls } from "./calls-subscription.ts";

/** Each call of the SDK that Berth makes, by its request. */
export const sdkCalls = Object.entries({ ...catalogCalls, ...subscriptionCalls });
