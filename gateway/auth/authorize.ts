import { atLeast } from "../../services/kit/rpc/caller-token.ts";
import { isProblem, type Problem, problem, unreachable } from "../http/problem.ts";
import type { Route } from "../routing/routes.ts";
import { type CachedCaller, type CacheEntry, type CallerCache, cacheKeyOf } from "./caller-cache.ts";

export type Auth = ReturnType<typeof createAuth>;

/** A request's caller, its bearer token, and the token's key in the cache. */
export type Credentials = { caller: CachedCaller; token: string; cacheKey: string };

const isBearer = (header: string | undefined) => /^Bearer /i.test(header ?? "");

const BEARER = /^Bearer +([A-Za-z0-9._~+/=-]+) *$/i;

const NO_TOKEN = "The request needs the header Authorization: Bearer with a valid token.";

const unauthenticated = () => problem(401, "unauthenticated", NO_TOKEN);

/** The refusal of a token that was sent. */
const invalidToken = () => problem(401, "unauthenticated", NO_TOKEN, { tokenError: "invalid_token" });

/**
 * Authenticates and authorizes requests. Returns a plain value when the cache decides and a promise when identity
 * is asked; while identity is unreachable the result is a 503.
 */
export function createAuth(options: { callers: CallerCache; isToken: (text: string) => boolean }) {
  const { callers, isToken } = options;
  const identityUnreachable = (error: unknown) => unreachable("identity", error);

  return {
    /** Returns the caller whose token an Authorization header carries: 401 for a missing, malformed or unknown one. */
    identify(header: string | undefined): Credentials | Problem | Promise<Credentials | Problem> {
      const token = header === undefined ? undefined : BEARER.exec(header)?.[1];
      if (token === undefined) return isBearer(header) ? invalidToken() : unauthenticated();
      const cacheKey = cacheKeyOf(token);
      const toCredentials = ({ caller }: CacheEntry) =>
        caller ? { caller, token, cacheKey } : invalidToken();
      const entry = callers.cached(cacheKey);
      if (entry) return toCredentials(entry);
      if (!isToken(token)) return invalidToken();
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
        fresh ? (roleRefusal(route, fresh, accountId) ?? fresh) : invalidToken();
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
  if (!route.needs) return undefined;
  const role = caller.roles.get(accountId ?? "");
  if (atLeast(role, route.needs)) return undefined;
  if (!role) return problem(403, "forbidden", "The caller is not a member of this account.");
  const message = `This needs the role ${route.needs} in the account.`;
  const refusal = problem(403, "forbidden", message, { context: { requiredRole: route.needs } });
  // A new consent can make a machine an editor, but never an owner.
  const curable = caller.kind === "machine" && route.needs === "editor";
  return curable ? { ...refusal, tokenError: "insufficient_scope" } : refusal;
}
