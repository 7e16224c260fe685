import { DEFAULT_ORIGIN } from "../kit/mail/mail.ts";
import { planFields } from "../kit/plans.ts";
import { SERVICE_CONNECTIONS } from "../kit/postgres/connection.ts";
import {
  ConfigError,
  type ConfigOf,
  integer,
  optionalUrl,
  serviceFields,
  url,
} from "../kit/process/config.ts";
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
  /** What plans allow, and the plan of an account that was never subscribed. */
  ...planFields,
  /** How many days services run on that no plan pays for (docs/billing.md#after-a-plan-ends). */
  graceDays: integer("PLAN_GRACE_DAYS", { max: 365, fallback: 7 }),
  ...stripeFields,
};

export type Config = ConfigOf<typeof fields>;

/** Returns where the payment provider's pages lead back to, by account. Throws ConfigError when they would lead nowhere. */
export function pagesOf({ publicOrigin, stripeKey }: Config) {
  if (stripeKey !== undefined && publicOrigin === undefined)
    throw new ConfigError("STRIPE_SECRET_KEY needs PUBLIC_ORIGIN, to which the pages of Stripe lead back");
  const pages = `${publicOrigin ?? DEFAULT_ORIGIN}/billing`;
  const of = (name: string) => (accountId: string) => `${pages}/${name}?account=${accountId}`;
  return {
    subscribed: of("subscribed"),
    notSubscribed: of("not-subscribed"),
    portalClosed: of("portal-closed"),
  };
}
