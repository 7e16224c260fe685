import Provider, { type Configuration, errors } from "oidc-provider";
import type { Logger } from "../../../kit/log.ts";
import { capped } from "../../../kit/rpc/caller-token.ts";
import { GRANT_SECONDS, REFRESH_SECONDS } from "../../grants/lifecycle.ts";
import { findLiveGrant, recordUse } from "../../grants/sql.ts";
import { CHARSET, MASK } from "../devices/user-codes.ts";
import { countTokenRequests } from "../metrics.ts";
import { DEVICE_GRANT, findResource, OFFLINE, READ, sameResource, toolsOf, WRITE } from "../scopes.ts";
import { type ArtifactOptions, artifacts } from "./artifacts.ts";
import { DEVICE_CODE_SECONDS, POLL_SECONDS } from "./device-codes.ts";
import { cookieKeys, type SigningKey } from "./keys.ts";
import { COOKIES, DEVICE_AUTHORIZATION, ORIGINAL_REQUEST, toErrorPage, wrapRequests } from "./requests.ts";

const CHALLENGE_SECONDS = 600;
const CODE_SECONDS = 60;

export type EmbeddedOptions = ArtifactOptions & {
  log: Logger;
  accessTokenSeconds: number;
};

/**
 * The embedded authorization server: oidc-provider, configured so that every authorization leads to a login challenge
 * and a consent challenge, like Ory Hydra. Its state is in the database, so that replicas are interchangeable.
 */
export function createProvider(options: EmbeddedOptions, keys: SigningKey[]): Provider {
  const { pool, now, origin, resource } = options;
  const provider = new Provider(origin, configurationOf(options, keys));
  provider.proxy = true;
  wrapRequests(provider, options);
  countTokenRequests(provider);
  answerDevices(provider);
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
        device_authorization: DEVICE_AUTHORIZATION,
        code_verification: "/device",
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
      extraParams: [ORIGINAL_REQUEST],
      // The gateway decides which origins may call.
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
        // Users decide at /device, a page of the gateway; the provider's own pages are not served.
        deviceFlow: {
          enabled: true,
          charset: CHARSET,
          mask: MASK,
          deviceInfo: (ctx) => ({ ip: ctx.get("x-forwarded-for") }),
        },
        dPoP: { enabled: false },
        pushedAuthorizationRequests: { enabled: false },
        resourceIndicators: {
          enabled: true,
          // Of several that were granted, the API includes the tools.
          defaultResource: (_ctx, _client, oneOf) =>
            oneOf && !oneOf.some((each) => sameResource(each, resource)) ? toolsOf(options) : resource,
          useGrantedResource: () => true,
          getResourceServerInfo: (_ctx, indicator) => {
            const audience = findResource(indicator, options);
            if (!audience) throw new errors.InvalidTarget();
            return {
              scope: `${READ} ${WRITE}`,
              audience,
              accessTokenTTL: accessTokenSeconds,
              accessTokenFormat: "jwt",
              jwt: { sign: { alg: "ES256" } },
            };
          },
        },
      },
      interactions: { url: (_ctx, { uid, prompt }) => pageOf(prompt.name, uid) },
      // Earlier grants are ignored: every authorization needs a new consent.
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
        DeviceCode: DEVICE_CODE_SECONDS,
        Grant: GRANT_SECONDS,
        IdToken: accessTokenSeconds,
        Interaction: CHALLENGE_SECONDS,
        RefreshToken: REFRESH_SECONDS,
        Session: 900,
      },
      // The gateway serves the error page, as it does all pages.
      renderError: (ctx, out) => toErrorPage(ctx, origin, out),
      findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
      extraTokenClaims: async (_ctx, token) => {
        const id = "grantId" in token ? token.grantId : undefined;
        const grant = id === undefined ? undefined : await findLiveGrant(pool, id, new Date(now()));
        if (!grant?.membership) throw new errors.InvalidGrant("the grant was revoked");
        await recordUse(pool, grant.id, new Date(now()));
        // The current role: it may be lower than when the grant was given.
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

/** Completes what the provider answers to requests of devices, as RFC 8628 and RFC 6749, section 5.2, have it. */
function answerDevices(provider: Provider): void {
  provider.on("device_authorization.success", (_ctx, body) => {
    body.interval = POLL_SECONDS;
  });
  provider.on("device_authorization.error", (ctx, error) => {
    const { client } = ctx.oidc;
    if (client?.grantTypeAllowed(DEVICE_GRANT) !== false || error.error !== "invalid_request") return;
    const error_description = `The client has not registered the grant type ${DEVICE_GRANT}`;
    ctx.body = { error: "unauthorized_client", error_description };
  });
}
