import { mailFields } from "../kit/mail/mail.ts";
import { apiPrefix, type ConfigOf, serviceFields, url } from "../kit/process/config.ts";

export const fields = {
  ...serviceFields,
  identityUrl: url("IDENTITY_URL", ["http", "https"]),
  deployerUrl: url("DEPLOYER_URL", ["http", "https"]),
  ...mailFields,
  apiPrefix,
};

export type Config = ConfigOf<typeof fields>;
