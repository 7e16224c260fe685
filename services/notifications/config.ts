import { mailFields } from "../kit/mail/mail.ts";
import { SERVICE_CONNECTIONS } from "../kit/postgres/connection.ts";
import { apiPrefix, type ConfigOf, serviceFields, url } from "../kit/process/config.ts";

/** The most connections to the database: streams are told of changes over one of their own. */
export const connections = SERVICE_CONNECTIONS + 1;

export const fields = {
  ...serviceFields,
  identityUrl: url("IDENTITY_URL", ["http", "https"]),
  deployerUrl: url("DEPLOYER_URL", ["http", "https"]),
  ...mailFields,
  apiPrefix,
};

export type Config = ConfigOf<typeof fields>;
