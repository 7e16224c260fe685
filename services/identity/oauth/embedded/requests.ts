import type { Context, Next } from "koa";
import type Provider from "oidc-provider";
import { hashToken } from "../../../kit/crypto/bearer-token.ts";
import { isTransient } from "../../../kit/failures.ts";
import type { Logger } from "../../../kit/log.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { findSpellings, READ, type Resources } from "../scopes.ts";
import { isVerifier } from "../sql.ts";

export const COOKIES = { session: "berth_oauth", interaction: "berth_interaction", resume: "berth_resume" };

/** Parameter with the scope and resource as the client sent them, as JSON, beside the completed ones. */
export const ORIGINAL_REQUEST = "berth_asked";
export type OriginalRequest = { scope: string[]; resource: string[] };

const AUTHORIZE = "/oauth2/auth";
const RESUME = /^\/oauth2\/auth\/([\w-]+)$/;
export const DEVICE_AUTHORIZATION = "/oauth2/device_authorization";
const OTHERS = ["/oauth2/token", "/oauth2/revoke", "/.well-known/jwks.json", DEVICE_AUTHORIZATION];

/** Whether the provider serves this path. Compared exactly: the provider's router also accepts other spellings. */
export function isProtocolPath(path: string): boolean {
  return path === AUTHORIZE || RESUME.test(path) || OTHERS.includes(path);
}

/** Registers what happens to a request before and after the provider answers it. */
export function wrapRequests(
  provider: Provider,
  options: { pool: Pool; log: Logger; origin: string; resource: string },
) {
  const { pool, log, origin, resource } = options;
  const { host, protocol } = new URL(origin);
  const failures = new WeakMap<object, unknown>();
  provider.on("server_error", (ctx, error) => failures.set(ctx.req, error));
  // Otherwise Koa writes errors to the console.
  provider.silent = true;

  provider.use(async (ctx, next) => {
    // The provider builds URLs from these headers, which clients could forge.
    ctx.req.headers.host = host;
    ctx.req.headers["x-forwarded-host"] = host;
    ctx.req.headers["x-forwarded-proto"] = protocol.slice(0, -1);
    try {
      await answer(ctx, next);
    } catch (error) {
      failures.set(ctx.req, error);
    }
    const failure = failures.get(ctx.req);
    if (failure === undefined) return;
    log.error({ err: failure, requestId: ctx.get("x-request-id") }, "the OAuth provider failed");
    fail(ctx, failure);
  });

  async function answer(ctx: Context, next: Next): Promise<unknown> {
    const uid = RESUME.exec(ctx.path)?.[1];
    if (ctx.path === AUTHORIZE) startOver(ctx, { origin, resource });
    if (uid === undefined) return next();
    if (!(await belongsToBrowser(pool, ctx, uid)))
      return toErrorPage(ctx, origin, {
        error: "invalid_request",
        error_description: "This step is over, or was begun in another browser",
      });
    await dropOtherUsersSession(provider, ctx, uid);
    return next();
  }

  /** Answers a request that failed: 503 if it may be retried. */
  function fail(ctx: Context, failure: unknown): void {
    const out = isTransient(failure)
      ? { error: "temporarily_unavailable", error_description: "Try again in a moment" }
      : { error: "server_error", error_description: "Something went wrong on our side" };
    if (ctx.path.startsWith(AUTHORIZE)) {
      toErrorPage(ctx, origin, out);
      return;
    }
    ctx.status = isTransient(failure) ? 503 : 500;
    if (ctx.status === 503) ctx.set("retry-after", "1");
    ctx.body = out;
  }
}

/** Redirects the browser to the gateway's error page. */
export function toErrorPage(
  ctx: Context,
  origin: string,
  { error, error_description = "" }: { error: string; error_description?: string | undefined },
): void {
  ctx.redirect(`${origin}/oauth/error?${new URLSearchParams({ error, error_description })}`);
}

/**
 * A step continues only in the browser that started it and received the verifier of the decision: otherwise an attacker
 * could take over what another user approved. The provider continues the step named by the cookie, not by the path.
 */
async function belongsToBrowser(pool: Pool, ctx: Context, uid: string): Promise<boolean> {
  if (ctx.cookies.get(COOKIES.resume, { signed: true }) !== uid) return false;
  return isVerifier(pool, hashToken(uid), hashToken(String(ctx.query.verifier ?? "")));
}

/** Every authorization starts from scratch: the provider's session is ignored. Completes scope and resource. */
function startOver(ctx: Context, own: Resources): void {
  dropCookie(ctx, COOKIES.session);
  const { scope, ...query } = ctx.query;
  // For other modes the provider has pages of its own; an unknown mode it refuses in the query.
  if (query.response_mode && query.response_mode !== "query") query.response_mode = "unsupported";
  const original: OriginalRequest = {
    scope: String(scope ?? "")
      .split(" ")
      .filter(Boolean),
    resource: [query.resource ?? []].flat(),
  };
  // Every role may read: without that scope, a reader's consent to an editor's scope would be empty. A scope parameter
  // that was sent twice is left for the provider to refuse.
  const completed = original.scope.includes(READ) ? original.scope : [...original.scope, READ];
  ctx.query = {
    ...query,
    [ORIGINAL_REQUEST]: JSON.stringify(original),
    scope: Array.isArray(scope) ? scope : completed.join(" "),
    // In all spellings, as the client may use another one for its token. What is unknown is the provider's to refuse.
    resource: findSpellings(original.resource, own) ?? original.resource,
  };
}

/** For a second user in the same browser, drops the session of the first instead of asking to sign out. */
async function dropOtherUsersSession(provider: Provider, ctx: Context, uid: string): Promise<void> {
  const login = (await provider.Interaction.find(uid))?.result?.login;
  const cookie = login && ctx.cookies.get(COOKIES.session, { signed: true });
  const session = cookie ? await provider.Session.find(cookie) : undefined;
  if (session?.accountId && session.accountId !== login?.accountId) dropCookie(ctx, COOKIES.session);
}

function dropCookie(ctx: Context, name: string): void {
  const cookies = ctx.req.headers.cookie?.split(/; */).filter((cookie) => !cookie.startsWith(name));
  if (cookies) ctx.req.headers.cookie = cookies.join("; ");
}
