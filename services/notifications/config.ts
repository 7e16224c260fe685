import { mailFields } from "../kit/mail/mail.ts";
import { SERVICE_CONNECTIONS } from "../kit/postgres/connection.ts";
import {
  apiPrefix,
  type ConfigOf,
  choice,
  consoleSwitch,
  keys,
  serviceFields,
  url,
} from "../kit/process/config.ts";

/** The maximum number of connections to the database: one more than others, on which changes are signaled to streams. */
export const connections = SERVICE_CONNECTIONS + 1;

export const fields = {
  ...serviceFields,
  identityUrl: url("IDENTITY_URL", ["http", "https"]),
  deployerUrl: url("DEPLOYER_URL", ["http", "https"]),
  ...mailFields,
  /** Seal the secrets of webhooks. */
  secretKeys: keys("SECRET_KEYS"),
  /** Whether webhooks may lead into private networks, and to this machine (docs/webhooks.md#urls). */
  webhooksPrivate: choice("WEBHOOKS_PRIVATE", ["on", "off"], "off"),
  apiPrefix,
  console: consoleSwitch,
};

export type Config = ConfigOf<typeof fields>;
