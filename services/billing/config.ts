import { planFields } from "../kit/plans.ts";
import { apiPrefix, type ConfigOf, optionalUrl, serviceFields, url } from "../kit/process/config.ts";
import { stripeFields } from "./stripe/stripe-config.ts";

const web = ["http", "https"] as const;

export const fields = {
  ...serviceFields,
  identityUrl: url("IDENTITY_URL", web),
  deployerUrl: url("DEPLOYER_URL", web),
  /** The origin to which the payment provider's pages lead back. */
  publicOrigin: optionalUrl("PUBLIC_ORIGIN", web),
  apiPrefix,
  /** The plan of an account that was never subscribed. */
  defaultTier: planFields.defaultTier,
  ...stripeFields,
};

export type Config = ConfigOf<typeof fields>;
