import type { IncomingHttpHeaders } from "node:http";
import { atLeast } from "../../services/kit/rpc/caller-token.ts";
import { isProblem, type Problem, problem, unreachable } from "../http/problem.ts";
import { ID_OF, isIdOf } from "../routing/path-ids.ts";
import type { Route } from "../routing/routes.ts";
import { type CachedCaller, type CacheEntry, type CallerCache, cacheKeyOf } from "./caller-cache.ts";
import { consoleSession } from "./session-cookie.ts";
import type { TokenFault } from "./token-shapes.ts";

export type Auth = ReturnType<typeof createAuth>;

/** A request's caller, its bearer token, and the token's key in the cache. */
export type Credentials = { caller: CachedCaller; token: string; cacheKey: string };

const isBearer = (header: string | undefined) => /^Bearer /i.test(header ?? "");

const BEARER = /^Bearer +([A-Za-z0-9._~+/=-]+) *$/i;

// Of a token that identity was asked about, nothing more is said: whether it ever was one is nobody's business.
const NO_TOKEN = "The request needs the header Authorization: Bearer, with a valid token after it.";
const OTHER_SCHEME = "The header Authorization must be the word Bearer, a space, and the token.";
const EMPTY = "The header Authorization has no token after Bearer.";
const UNREADABLE =
  "After Bearer there must be one token: letters, digits and - . _ ~ + / = only, without quotation marks or spaces.";
const ENDED = "The token is not known here, has expired, or was revoked. Use another one.";
const FAULTS: Record<TokenFault, string> = {
  foreign:
    "This is not a token of this installation, or not all of it. Copy it again, up to its last character.",
  expired: "The access token has expired. Get another one with the refresh token.",
};

const unauthenticated = (sentence: string) => problem(401, "unauthenticated", sentence);

/** The refusal of a token that was sent. */
const invalidToken = (sentence: string) =>
  problem(401, "unauthenticated", sentence, { tokenError: "invalid_token" });

/** The refusal of a token that was issued for the tools of MCP (docs/mcp.md#access). */
export const FOR_TOOLS = invalidToken(
  "This access token is for the tools at /mcp. The API needs one whose resource is the API.",
);

/** Returns the refusal of a header that holds no token; it repeats nothing that was sent. */
function withoutToken(header: string | undefined): Problem {
  if (header === undefined || header === "") return unauthenticated(NO_TOKEN);
  if (/^Bearer *$/i.test(header)) return unauthenticated(EMPTY);
  return isBearer(header) ? invalidToken(UNREADABLE) : unauthenticated(OTHER_SCHEME);
}

/**
 * Authenticates and authorizes requests. Returns a plain value when the cache decides and a promise when identity
 * is asked; while identity is unreachable the result is a 503.
 */
export function createAuth(options: {
  callers: CallerCache;
  faultOf: (token: string) => TokenFault | undefined;
  /** The origin whose console may use the sessions of browsers; undefined where there is no console. */
  consoleOrigin: () => string | undefined;
}) {
  const { callers, faultOf, consoleOrigin } = options;
  const identityUnreachable = (error: unknown) => unreachable("identity", error);

  return {
    /**
     * Returns the caller of a request to the API: whose token its Authorization header carries or, where it has none,
     * whose session the console acts for.
     */
    identifyRequest(headers: IncomingHttpHeaders): Credentials | Problem | Promise<Credentials | Problem> {
      const origin = consoleOrigin();
      if (headers.authorization !== undefined || origin === undefined)
        return this.identify(headers.authorization);
      const session = consoleSession(headers, origin);
      return this.identify(session && `Bearer ${session}`);
    },

    /** Returns the caller whose token an Authorization header carries: 401 for a missing, malformed or unknown one. */
    identify(header: string | undefined): Credentials | Problem | Promise<Credentials | Problem> {
      const token = header === undefined ? undefined : BEARER.exec(header)?.[1];
      if (token === undefined) return withoutToken(header);
      const cacheKey = cacheKeyOf(token);
      const toCredentials = ({ caller }: CacheEntry) =>
        caller ? { caller, token, cacheKey } : invalidToken(ENDED);
      const entry = callers.cached(cacheKey);
      if (entry) return toCredentials(entry);
      const fault = faultOf(token);
      if (fault) return invalidToken(FAULTS[fault]);
      return callers.lookup(cacheKey, token).then(toCredentials, identityUnreachable);
    },

    /**
     * Returns the caller if they may use the route in this account, else 403. The cache alone never refuses:
     * identity is asked again first, so that a new account or role holds at once.
     */
    authorize(
      route: Route,
      { caller, token, cacheKey }: Credentials,
      accountId: string | undefined,
      arrivedAt: number,
    ): CachedCaller | Problem | Promise<CachedCaller | Problem> {
      if (route.usersOnly && caller.kind === "machine")
        return problem(403, "machine_actor_forbidden", "Machine tokens may not do this.");
      const refusal = roleRefusal(route, caller, accountId);
      if (!refusal) return caller;
      if (caller.asOf >= arrivedAt) return refusal;
      const decide = ({ caller: fresh }: CacheEntry) =>
        fresh ? (roleRefusal(route, fresh, accountId) ?? fresh) : invalidToken(ENDED);
      return callers.refresh(cacheKey, token).then(decide, identityUnreachable);
    },

    /** Resolves to the refusal of a caller who was admitted before, or to undefined while they still may. */
    async revalidate(
      route: Route,
      { token }: Credentials,
      accountId: string | undefined,
    ): Promise<Problem | undefined> {
      const credentials = await this.identify(`Bearer ${token}`);
      if (isProblem(credentials)) return credentials;
      const caller = await this.authorize(route, credentials, accountId, Date.now());
      return isProblem(caller) ? caller : undefined;
    },
  };
}

/**
 * Returns the 403 of a caller whose role is too low: the same for an account they are no member of, whether it
 * exists or not (docs/conventions.md#forbidden-or-not-found).
 */
function roleRefusal(route: Route, caller: CachedCaller, accountId: string | undefined): Problem | undefined {
  const isMachine = caller.kind === "machine";
  const needs = (isMachine && route.machineNeeds) || route.needs;
  if (!needs) return undefined;
  const role = caller.roles.get(accountId ?? "");
  if (atLeast(role, needs)) return undefined;
  if (!role) {
    const message = "The caller is not a member of this account.";
    return problem(
      403,
      "forbidden",
      isIdOf("accountId", accountId) ? message : `${message} ${ID_OF.accountId.hint}`,
    );
  }
  const message = `This needs the role ${needs} in the account.`;
  const refusal = problem(403, "forbidden", message, { context: { requiredRole: needs } });
  // A new consent can make a machine an editor, but never an owner.
  const curable = isMachine && needs === "editor";
  return curable ? { ...refusal, tokenError: "insufficient_scope" } : refusal;
}
