import { parseToken } from "../kit/crypto/bearer-token.ts";
import { DEFAULT_ORIGIN, mailFields } from "../kit/mail/mail.ts";
import { planFields } from "../kit/plans.ts";
import {
  apiPrefix,
  ConfigError,
  type ConfigOf,
  checked,
  choice,
  clientIdMetadata,
  type Field,
  integer,
  oauthResource,
  optionalUrl,
  serviceFields,
} from "../kit/process/config.ts";
import type { FirstOwner } from "./bootstrap/bootstrap.ts";
import { isHostName } from "./oauth/registration/host-names.ts";
import { isWeak } from "./passwords/passwords.ts";

/** The hosts allowed in https redirect URIs, `*.` for all subdomains of one; any host unless set, `none` for none. */
const redirectHosts: Field<string[] | undefined> = {
  name: "OAUTH_REDIRECT_HOSTS",
  parse: (value) => {
    if (value === undefined || value === "none") return value && [];
    const hosts = value.split(",").map((host) => host.trim());
    if (!hosts.every((host) => isHostName(host.replace(/^\*\./, ""))))
      throw new Error("must be none, or host names such as app.example.com,*.example.com");
    return hosts;
  },
};

export const fields = {
  ...serviceFields,
  ...planFields,
  bootstrapEmail: checked(
    "BOOTSTRAP_OWNER_EMAIL",
    (value) => value.length <= 254 && /^[^@\s]+@[^@\s]+$/.test(value),
    "must be an e-mail address",
  ),
  bootstrapPassword: checked(
    "BOOTSTRAP_OWNER_PASSWORD",
    (value) => !isWeak(value) && value.length <= 1024,
    "must have 12 to 1024 characters",
  ),
  bootstrapToken: checked(
    "BOOTSTRAP_OWNER_TOKEN",
    (value) => parseToken(value) === "pat",
    "must be a whole berth_pat_ token",
  ),
  ...mailFields,
  /** The services asked for the contents of an account to be deleted; without them accounts cannot be deleted. */
  deployerUrl: optionalUrl("DEPLOYER_URL", ["http", "https"]),
  billingUrl: optionalUrl("BILLING_URL", ["http", "https"]),
  apiPrefix,
  identityProvider: choice("IDENTITY_PROVIDER", ["embedded", "hydra"] as const, "embedded"),
  /** The admin API of Ory Hydra, which must not be reachable from outside. */
  hydraAdminUrl: optionalUrl("HYDRA_ADMIN_URL", ["http", "https"]),
  oauthResource,
  /** How long an access token of the embedded provider is valid. */
  accessTokenSeconds: integer("OAUTH_ACCESS_TOKEN_SECONDS", { fallback: 900, min: 60, max: 3600 }),
  /** Whether clients may register redirect URIs with a scheme of their own, such as cursor:. */
  customSchemes: choice("OAUTH_ALLOW_CUSTOM_SCHEMES", ["on", "off"] as const, "on"),
  redirectHosts,
  clientIdMetadata,
};

export type Config = ConfigOf<typeof fields>;

/**
 * Returns the first owner to create, or undefined when the configuration names none. Throws ConfigError when
 * it is incomplete.
 */
export function firstOwnerOf(config: Config): FirstOwner | undefined {
  const { bootstrapEmail: email, bootstrapPassword: password, bootstrapToken: token } = config;
  const secret = password !== undefined || token !== undefined;
  if (email === undefined && !secret) return undefined;
  if (email === undefined || !secret)
    throw new ConfigError(
      "BOOTSTRAP_OWNER_EMAIL needs BOOTSTRAP_OWNER_PASSWORD or BOOTSTRAP_OWNER_TOKEN, and they need it",
    );
  return { email: email.toLowerCase(), password, token };
}

/**
 * Returns the settings of the OAuth provider: the issuer, the audience of its tokens, and the URL of Ory Hydra's admin
 * API if Hydra is the provider. Throws ConfigError when that URL is missing.
 */
export function oauthSettings(config: Config) {
  const {
    publicOrigin: origin = DEFAULT_ORIGIN,
    identityProvider,
    hydraAdminUrl,
    accessTokenSeconds,
  } = config;
  const adminUrl = identityProvider === "hydra" ? hydraAdminUrl : undefined;
  if (identityProvider === "hydra" && (adminUrl === undefined || new URL(adminUrl).username))
    throw new ConfigError(
      "IDENTITY_PROVIDER=hydra needs HYDRA_ADMIN_URL, the URL of Hydra's admin API without a user or password",
    );
  const resource = config.oauthResource ?? origin + config.apiPrefix;
  return { origin, resource, accessTokenSeconds, adminUrl };
}

/** Returns the rules for what clients may register. */
export function metadataRules({ customSchemes, redirectHosts, identityProvider }: Config) {
  return {
    ...{ customSchemes: customSchemes === "on", hosts: redirectHosts },
    devices: identityProvider === "embedded",
  };
}
