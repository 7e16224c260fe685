import Provider, { type Configuration, errors } from "oidc-provider";
import type { Logger } from "../../../kit/log.ts";
import { capped } from "../../../kit/rpc/caller-token.ts";
import { GRANT_SECONDS, REFRESH_SECONDS } from "../grants.ts";
import { countTokenRequests } from "../metrics.ts";
import { OFFLINE, READ, sameResource, WRITE } from "../scopes.ts";
import { findLiveGrant, noteUse } from "../sql.ts";
import { type ArtifactOptions, artifacts } from "./artifacts.ts";
import { cookieKeys, type SigningKey } from "./keys.ts";
import { ASKED, aroundRequests, COOKIES, toErrorPage } from "./requests.ts";

const CHALLENGE_SECONDS = 600;
const CODE_SECONDS = 60;

export type EmbeddedOptions = ArtifactOptions & {
  log: Logger;
  secrets: Buffer[];
  /** The public origin: the issuer of all tokens. */
  origin: string;
  /** What tokens are for: the base URL of the API. */
  resource: string;
  accessTokenSeconds: number;
};

/**
 * The embedded authorization server: oidc-provider, set so that every authorization brings a login challenge and a
 * consent challenge, as Ory Hydra does. Its state is in the database, so that any replica goes on for any other.
 */
export function createProvider(options: EmbeddedOptions, keys: SigningKey[]): Provider {
  const { pool, now, origin, resource } = options;
  const provider = new Provider(origin, configurationOf(options, keys));
  provider.proxy = true;
  aroundRequests(provider, options);
  countTokenRequests(provider);
  return provider;

  function configurationOf(
    { secrets, accessTokenSeconds }: EmbeddedOptions,
    jwks: SigningKey[],
  ): Configuration {
    return {
      adapter: (model: string) => artifacts(options, model),
      jwks: { keys: jwks },
      cookies: {
        keys: cookieKeys(secrets),
        names: COOKIES,
      },
      routes: {
        authorization: "/oauth2/auth",
        token: "/oauth2/token",
        revocation: "/oauth2/revoke",
        jwks: "/.well-known/jwks.json",
      },
      scopes: [OFFLINE],
      responseTypes: ["code"],
      clientDefaults: {
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: "none",
        id_token_signed_response_alg: "ES256",
      },
      clientAuthMethods: ["none"],
      enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
      extraParams: [ASKED],
      // Which origins may call is decided by the gateway.
      clientBasedCORS: () => true,
      pkce: { required: () => true },
      features: {
        devInteractions: { enabled: false },
        userinfo: { enabled: false },
        rpInitiatedLogout: { enabled: false },
        revocation: {
          enabled: true,
          allowedPolicy: (_ctx, client, token) => token.clientId === client.clientId,
        },
        dPoP: { enabled: false },
        pushedAuthorizationRequests: { enabled: false },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => resource,
          useGrantedResource: () => true,
          getResourceServerInfo: (_ctx, indicator) => {
            if (!sameResource(indicator, resource)) throw new errors.InvalidTarget();
            return {
              scope: `${READ} ${WRITE}`,
              audience: resource,
              accessTokenTTL: accessTokenSeconds,
              accessTokenFormat: "jwt",
              jwt: { sign: { alg: "ES256" } },
            };
          },
        },
      },
      interactions: { url: (_ctx, { uid, prompt }) => pageOf(prompt.name, uid) },
      // What was granted before never counts: every authorization is consented to anew.
      loadExistingGrant: async (ctx) => {
        const { grantId } = ctx.oidc.result?.consent ?? {};
        return grantId === undefined ? undefined : ctx.oidc.provider.Grant.find(grantId);
      },
      issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed("refresh_token"),
      rotateRefreshToken: true,
      expiresWithSession: async () => false,
      ttl: {
        AccessToken: accessTokenSeconds,
        AuthorizationCode: CODE_SECONDS,
        Grant: GRANT_SECONDS,
        IdToken: accessTokenSeconds,
        Interaction: CHALLENGE_SECONDS,
        RefreshToken: REFRESH_SECONDS,
        Session: 900,
      },
      // The page is the gateway's, where browsers see the rest too.
      renderError: (ctx, out) => toErrorPage(ctx, origin, out),
      findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
      extraTokenClaims: async (_ctx, token) => {
        const id = "grantId" in token ? token.grantId : undefined;
        const grant = id === undefined ? undefined : await findLiveGrant(pool, id, new Date(now()));
        if (!grant?.membership) throw new errors.InvalidGrant("the grant was revoked");
        await noteUse(pool, grant.id, new Date(now()));
        // As now: the user's role may be lower than when the grant was given.
        const role = capped(grant.role, grant.membership);
        return { account_id: grant.accountId, role, grant_id: grant.id };
      },
    };
  }

  function pageOf(prompt: string, uid: string): string {
    const page = prompt === "login" ? "login?login_challenge" : "consent?consent_challenge";
    return `${origin}/oauth/${page}=${uid}`;
  }
}
