import type { HandlerContext } from "@connectrpc/connect";
import type { Db } from "../../kit/postgres/db.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { refuse } from "../../kit/rpc/refusals.ts";
import { findLiveGrant } from "../grants/sql.ts";
import { findLiveToken } from "./sql.ts";
import { permits, type TokenScope } from "./token-scope.ts";

/** A session ends after 12 h without use, and at the latest 7 days after signing in (docs/identity.md#sessions). */
export const SESSION_IDLE_SECONDS = 12 * 3600;
export const SESSION_DAYS = 7;
export const DAY_MS = 24 * 3600 * 1000;

type AuthenticatedToken = {
  id: string;
  userId: string;
  kind: "session" | "token" | "machine";
  scope: TokenScope;
};

/**
 * Returns the current session, token or grant of the request, whose scope decides what its user may do beyond one
 * account. Throws 401 when it has ended since the gateway checked it.
 */
export async function authenticate(db: Db, ctx: HandlerContext, now: number): Promise<AuthenticatedToken> {
  const { caller } = who(ctx);
  if (caller.kind === "machine") {
    const grant = await findLiveGrant(db, caller.tokenId ?? "", new Date(now));
    if (grant?.userId !== caller.id) throw tokenEnded();
    // Of no account once the membership of the grant has ended, even if the user has joined again.
    const scope = { roleCap: grant.role, accountId: grant.membership === null ? "" : grant.accountId };
    return { id: grant.id, userId: caller.id, kind: "machine", scope };
  }
  const row =
    caller.tokenId === undefined
      ? undefined
      : await findLiveToken(db, {
          id: caller.tokenId,
          userId: caller.id,
          now: new Date(now),
          idleSeconds: SESSION_IDLE_SECONDS,
        });
  if (!row) throw tokenEnded();
  return { id: row.id, userId: caller.id, kind: row.kind, scope: row };
}

/** Like `authenticate`, but throws 403 for a limited token, for changes of the user as a whole. */
export async function authenticateUnlimited(
  db: Db,
  ctx: HandlerContext,
  now: number,
  action: string,
): Promise<AuthenticatedToken> {
  const current = await authenticate(db, ctx, now);
  if (!permits(current.scope, {})) throw refuse(403, "forbidden", `A limited token cannot ${action}.`);
  return current;
}

/** Returns 401: the token has ended since the gateway checked it. */
export const tokenEnded = () => refuse(401, "unauthenticated", "The token is no longer valid.");
