import { mailFields, toMailSettings } from "../kit/mail/mail.ts";
import {
  apiPrefix,
  ConfigError,
  type ConfigOf,
  optionalUrl,
  serviceFields,
  url,
} from "../kit/process/config.ts";

export const fields = {
  ...serviceFields,
  identityUrl: url("IDENTITY_URL", ["http", "https"]),
  deployerUrl: url("DEPLOYER_URL", ["http", "https"]),
  ...mailFields,
  /** The origin at which clients reach the gateway, and which links in mails lead to. */
  publicOrigin: optionalUrl("PUBLIC_ORIGIN", ["http", "https"]),
  apiPrefix,
};

export type Config = ConfigOf<typeof fields>;

/** Returns where links lead, and how mail is sent if it is. Throws ConfigError when links in mails would lead nowhere. */
export function linkSettings(config: Config) {
  const mail = toMailSettings(config);
  if (mail && config.publicOrigin === undefined)
    throw new ConfigError("SMTP_URL needs PUBLIC_ORIGIN, to which the links in mails lead");
  const origin = config.publicOrigin ?? "http://127.0.0.1:4000";
  return { mail, origin, baseUrl: origin + config.apiPrefix };
}
