import type { Logger } from "../../services/kit/log.ts";
import { atLeast } from "../../services/kit/rpc/caller-token.ts";
import { type Problem, problem, unavailable } from "../http/problem.ts";
import type { Route } from "../routing/routes.ts";
import { type Callers, type Entry, type Known, keyOf } from "./caller-cache.ts";

export type Auth = ReturnType<typeof createAuth>;

/** A request's caller, its bearer token, and the key to ask for it afresh. */
export type Identified = { known: Known; token: string; key: string };

const BEARER = /^Bearer +([A-Za-z0-9._~+/=-]+) *$/i;

const unauthenticated = () =>
  problem(401, "unauthenticated", "The request needs the header Authorization: Bearer with a valid token.");

/**
 * Who asks, and whether they may. Both answer at once where the cache knows, and a promise where
 * identity has to be asked; identity away is 503.
 */
export function createAuth(options: {
  callers: Callers;
  parseToken: (text: string) => unknown;
  log: Logger;
}) {
  const { callers, parseToken, log } = options;

  const away = (error: unknown): Problem => {
    log.warn({ err: error }, "identity can not be asked");
    return unavailable();
  };

  return {
    /** The caller of an Authorization header: 401 for none, a malformed or an unknown token. */
    identify(header: string | undefined): Identified | Problem | Promise<Identified | Problem> {
      const token = header === undefined ? undefined : BEARER.exec(header)?.[1];
      if (token === undefined) return unauthenticated();
      const key = keyOf(token);
      const settle = ({ known }: Entry) => (known ? { known, token, key } : unauthenticated());
      const entry = callers.cached(key);
      if (entry) return settle(entry);
      if (!parseToken(token)) return unauthenticated();
      return callers.find(key).then(settle, away);
    },

    /**
     * Gives the caller if they may use the route in this account. A refusal is never given on what the
     * cache says: identity is asked once more, so that a new account or role holds at once.
     */
    authorize(
      route: Route,
      { known, key }: Identified,
      accountId: string | undefined,
      arrivedAt: number,
    ): Known | Problem | Promise<Known | Problem> {
      if (route.usersOnly && known.kind === "machine")
        return problem(403, "machine_actor_forbidden", "Machine tokens may not do this.");
      const refusal = refusalOf(route, known, accountId);
      if (!refusal) return known;
      if (known.asOf >= arrivedAt) return refusal;
      const again = ({ known: fresh }: Entry) =>
        fresh ? (refusalOf(route, fresh, accountId) ?? fresh) : unauthenticated();
      return callers.refresh(key).then(again, away);
    },
  };
}

/**
 * One answer for an account the caller is no member of, whether it exists or not
 * (docs/conventions.md#forbidden-or-not-found).
 */
function refusalOf(route: Route, known: Known, accountId: string | undefined): Problem | undefined {
  if (!route.needs) return undefined;
  const role = known.roles.get(accountId ?? "");
  if (atLeast(role, route.needs)) return undefined;
  if (!role) return problem(403, "forbidden", "The caller is not a member of this account.");
  const message = `This needs the role ${route.needs} in the account.`;
  return problem(403, "forbidden", message, { context: { requiredRole: route.needs } });
}
