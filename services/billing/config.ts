import { planFields } from "../kit/plans.ts";
import { SERVICE_CONNECTIONS } from "../kit/postgres/connection.ts";
import { apiPrefix, type ConfigOf, optionalUrl, serviceFields, url } from "../kit/process/config.ts";
import { stripeFields } from "./stripe/stripe-config.ts";

const web = ["http", "https"] as const;

/** Connections that hold the locks of accounts, and so requests to the payment provider at a time. */
export const LOCKS = 8;
/** The most connections to the database. */
export const connections = SERVICE_CONNECTIONS + LOCKS;

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
