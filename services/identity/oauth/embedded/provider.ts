import { createHash } from "node:crypto";
import type { Context } from "koa";
import Provider, { type Configuration, errors, interactionPolicy } from "oidc-provider";
import type { Logger } from "../../../kit/log.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { READ, sameResource, WRITE } from "../scopes.ts";
import { findLiveGrant, isVerifier } from "../sql.ts";
import { artifacts } from "./artifacts.ts";
import { cookieKeys, type SigningKey } from "./keys.ts";

const CHALLENGE_SECONDS = 600;
const CODE_SECONDS = 60;
const REFRESH_SECONDS = 30 * 24 * 3600;
const GRANT_SECONDS = 365 * 24 * 3600;

/** The scope as the client asked for it, kept beside the one that was completed. */
export const REQUESTED_SCOPE = "berth_requested_scope";

export type EmbeddedOptions = {
  pool: Pool;
  log: Logger;
  secrets: Buffer[];
  /** The public origin: the issuer of all tokens. */
  origin: string;
  /** What tokens are for: the base URL of the API. */
  resource: string;
  accessTokenSeconds: number;
  /** A grant ended at the provider: its refresh token or code was used twice, or the client revoked a token. */
  grantEnded: (grantId: string) => Promise<void>;
};

/**
 * The embedded authorization server: oidc-provider, set so that every authorization brings a login challenge and a
 * consent challenge, as Ory Hydra does. Its state is in the database, so that any replica goes on for any other.
 */
export function createProvider(options: EmbeddedOptions, keys: SigningKey[]): Provider {
  const { pool, origin, resource, log } = options;
  const provider = new Provider(origin, configurationOf(options, keys));
  provider.proxy = true;
  provider.use(async (ctx, next) => {
    // URLs are made from these headers, which clients choose.
    ctx.req.headers.host = new URL(origin).host;
    ctx.req.headers["x-forwarded-proto"] = new URL(origin).protocol.slice(0, -1);
    const uid = /^\/oauth2\/auth\/([^/]+)$/.exec(ctx.path)?.[1];
    if (uid !== undefined && !(await belongsToBrowser(pool, uid, ctx.query.verifier))) {
      ctx.status = 400;
      ctx.body = "This step belongs to another browser, or is over. Begin again in the application.";
      return;
    }
    if (ctx.path === "/oauth2/auth") beginAnew(ctx);
    if (uid !== undefined) await forgetOtherUser(provider, ctx, uid);
    await next();
  });
  provider.on("server_error", (_ctx, error) => log.error({ err: error }, "the OAuth provider failed"));
  return provider;

  function configurationOf(
    { secrets, accessTokenSeconds }: EmbeddedOptions,
    jwks: SigningKey[],
  ): Configuration {
    return {
      adapter: (model: string) => artifacts(pool, model, options.grantEnded),
      jwks: { keys: jwks },
      cookies: {
        keys: cookieKeys(secrets),
        names: { session: "berth_oauth", interaction: "berth_interaction", resume: "berth_resume" },
      },
      routes: {
        authorization: "/oauth2/auth",
        token: "/oauth2/token",
        revocation: "/oauth2/revoke",
        jwks: "/.well-known/jwks.json",
      },
      scopes: ["offline_access"],
      responseTypes: ["code"],
      clientDefaults: {
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: "none",
        id_token_signed_response_alg: "ES256",
      },
      clientAuthMethods: ["none"],
      enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
      extraParams: [REQUESTED_SCOPE],
      pkce: { required: () => true },
      features: {
        devInteractions: { enabled: false },
        userinfo: { enabled: false },
        rpInitiatedLogout: { enabled: false },
        revocation: { enabled: true, allowedPolicy: () => true },
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
      interactions: { policy: twoChallenges(), url: (_ctx, { uid, prompt }) => pageOf(prompt.name, uid) },
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
      renderError: (ctx, { error, error_description = "" }) => {
        ctx.redirect(`${origin}/oauth/error?${new URLSearchParams({ error, error_description })}`);
      },
      findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
      extraTokenClaims: async (_ctx, token) => {
        const grant =
          "grantId" in token && token.grantId ? await findLiveGrant(pool, token.grantId) : undefined;
        if (!grant) throw new errors.InvalidGrant("the grant was revoked");
        return { account_id: grant.accountId, role: grant.role, grant_id: grant.id };
      },
    };
  }

  function pageOf(prompt: string, uid: string): string {
    const page = prompt === "login" ? "login?login_challenge" : "consent?consent_challenge";
    return `${origin}/oauth/${page}=${uid}`;
  }
}

/** A step goes on only in the browser that was handed the verifier, else somebody else's approval could be taken. */
function belongsToBrowser(pool: Pool, uid: string, verifier: unknown): Promise<boolean> {
  return isVerifier(pool, sha256(uid), sha256(String(verifier ?? "")));
}

export function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Every authorization asks anew: no session of the provider's counts, and the scope is completed. */
function beginAnew(ctx: Context): void {
  dropCookie(ctx, "berth_oauth");
  const asked = String(ctx.query.scope ?? "")
    .split(" ")
    .filter(Boolean);
  // Reading is what every role may do: without it a reader's consent to an editor's scope would be an empty one.
  const scope = asked.includes(READ) ? asked : [...asked, READ];
  ctx.query = { ...ctx.query, [REQUESTED_SCOPE]: asked.join(" "), scope: scope.join(" ") };
}

/** A second user in the same browser: the session of the first is not asked to sign out, but forgotten. */
async function forgetOtherUser(provider: Provider, ctx: Context, uid: string): Promise<void> {
  const login = (await provider.Interaction.find(uid))?.result?.login;
  const cookie = login && ctx.cookies.get("berth_oauth", { signed: true });
  const session = cookie ? await provider.Session.find(cookie) : undefined;
  if (session?.accountId && session.accountId !== login?.accountId) dropCookie(ctx, "berth_oauth");
}

function dropCookie(ctx: Context, name: string): void {
  const cookies = ctx.req.headers.cookie?.split("; ").filter((cookie) => !cookie.startsWith(name));
  if (cookies) ctx.req.headers.cookie = cookies.join("; ");
}

function twoChallenges(): interactionPolicy.DefaultPolicy {
  const { Check, base } = interactionPolicy;
  const policy = base();
  const always = (prompt: "login" | "consent", error: string) =>
    policy
      .get(prompt)
      ?.checks.add(
        new Check(`every_${prompt}`, `every ${prompt} is confirmed`, error, (ctx) =>
          ctx.oidc.result?.[prompt] ? Check.NO_NEED_TO_PROMPT : Check.REQUEST_PROMPT,
        ),
        0,
      );
  always("login", "login_required");
  always("consent", "consent_required");
  return policy;
}
