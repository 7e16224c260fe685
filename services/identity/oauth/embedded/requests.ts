import type { Context, Next } from "koa";
import type Provider from "oidc-provider";
import { hashToken } from "../../../kit/bearer-token.ts";
import type { Logger } from "../../../kit/log.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { isTransient } from "../../../kit/rpc/errors.ts";
import { READ, sameResource } from "../scopes.ts";
import { isVerifier } from "../sql.ts";

export const COOKIES = { session: "berth_oauth", interaction: "berth_interaction", resume: "berth_resume" };

/** Parameter with what the client itself asked for, as JSON, beside scope and resource as they were completed. */
export const ASKED = "berth_asked";
export type Asked = { scope: string[]; resource: string[] };

const AUTHORIZE = "/oauth2/auth";
const RESUME = /^\/oauth2\/auth\/([\w-]+)$/;
const OTHERS = ["/oauth2/token", "/oauth2/revoke", "/.well-known/jwks.json"];

/** Whether the provider answers this path. It is compared exactly: the provider's router also takes other spellings. */
export function isProtocolPath(path: string): boolean {
  return path === AUTHORIZE || RESUME.test(path) || OTHERS.includes(path);
}

/** What happens to a request before and after the provider answers it. */
export function aroundRequests(
  provider: Provider,
  options: { pool: Pool; log: Logger; origin: string; resource: string },
) {
  const { pool, log, origin, resource } = options;
  const { host, protocol } = new URL(origin);
  const failures = new WeakMap<object, unknown>();
  provider.on("server_error", (ctx, error) => failures.set(ctx.req, error));
  // Else Koa writes errors to the console.
  provider.silent = true;

  provider.use(async (ctx, next) => {
    // URLs are made from these headers, which clients choose.
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
    if (ctx.path === AUTHORIZE) beginAnew(ctx, resource);
    if (uid === undefined) return next();
    if (!(await belongsToBrowser(pool, ctx, uid)))
      return toErrorPage(ctx, origin, {
        error: "invalid_request",
        error_description: "This step is over, or was begun in another browser",
      });
    await forgetOtherUser(provider, ctx, uid);
    return next();
  }

  /** Answers a request that failed: 503 where it may be repeated. */
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

/** Sends the browser to the page of the gateway that shows errors. */
export function toErrorPage(
  ctx: Context,
  origin: string,
  { error, error_description = "" }: { error: string; error_description?: string | undefined },
): void {
  ctx.redirect(`${origin}/oauth/error?${new URLSearchParams({ error, error_description })}`);
}

/**
 * A step goes on only in the browser that began it and was handed the verifier of the decision: else somebody could take
 * over what another approved. The provider goes on with the step that the cookie names, not with that of the path.
 */
async function belongsToBrowser(pool: Pool, ctx: Context, uid: string): Promise<boolean> {
  if (ctx.cookies.get(COOKIES.resume, { signed: true }) !== uid) return false;
  return isVerifier(pool, hashToken(uid), hashToken(String(ctx.query.verifier ?? "")));
}

/** Every authorization asks anew: no session of the provider's counts. Scope and resource are completed. */
function beginAnew(ctx: Context, resource: string): void {
  dropCookie(ctx, COOKIES.session);
  const { scope, ...query } = ctx.query;
  // For the other modes the provider has pages of its own; one that it does not know it refuses in the query.
  if (query.response_mode && query.response_mode !== "query") query.response_mode = "unsupported";
  const asked: Asked = {
    scope: String(scope ?? "")
      .split(" ")
      .filter(Boolean),
    resource: [query.resource ?? []].flat(),
  };
  // Reading is what every role may do: without it a reader's consent to an editor's scope would be an empty one. A scope
  // that was sent twice is left for the provider to refuse.
  const completed = asked.scope.includes(READ) ? asked.scope : [...asked.scope, READ];
  ctx.query = {
    ...query,
    [ASKED]: JSON.stringify(asked),
    scope: Array.isArray(scope) ? scope : completed.join(" "),
    resource: spellings(asked.resource, resource),
  };
}

/** The resource in both spellings, so that the client may use another one for its token; unknown ones as they are. */
function spellings(asked: string[], resource: string): string[] {
  if (!asked.every((each) => sameResource(each, resource))) return asked;
  const plain = resource.replace(/\/$/, "");
  return [...new Set([resource, plain, `${plain}/`])];
}

/** A second user in the same browser: the session of the first is not asked to sign out, but forgotten. */
async function forgetOtherUser(provider: Provider, ctx: Context, uid: string): Promise<void> {
  const login = (await provider.Interaction.find(uid))?.result?.login;
  const cookie = login && ctx.cookies.get(COOKIES.session, { signed: true });
  const session = cookie ? await provider.Session.find(cookie) : undefined;
  if (session?.accountId && session.accountId !== login?.accountId) dropCookie(ctx, COOKIES.session);
}

function dropCookie(ctx: Context, name: string): void {
  const cookies = ctx.req.headers.cookie?.split(/; */).filter((cookie) => !cookie.startsWith(name));
  if (cookies) ctx.req.headers.cookie = cookies.join("; ");
}
