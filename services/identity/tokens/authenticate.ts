import type { HandlerContext } from "@connectrpc/connect";
import type { Db } from "../../kit/postgres/db.ts";
import { refuse } from "../../kit/rpc/errors.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { findLiveGrant } from "../oauth/sql.ts";
import { findLiveToken } from "./sql.ts";
import { permits, type TokenScope } from "./token-scope.ts";

/** A session ends when it was not used for 12 h, and 7 days after signing in (docs/identity.md#sessions). */
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
 * Returns the session, token or grant of the request as it is now: what its user may do beyond one account depends on
 * its scope. Throws 401 when it ended since the gateway checked it.
 */
export async function authenticate(db: Db, ctx: HandlerContext, now: number): Promise<AuthenticatedToken> {
  const { caller } = who(ctx);
  if (caller.kind === "machine") {
    const grant = await findLiveGrant(db, caller.tokenId ?? "", new Date(now));
    if (grant?.userId !== caller.id) throw ended();
    // Of no account once its membership ended, also when the user is a member again.
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
  if (!row) throw ended();
  return { id: row.id, userId: caller.id, kind: row.kind, scope: row };
}

/** As `authenticate`. Throws 403 for a limited token: what follows concerns the user as a whole. */
export async function authenticateUnlimited(
  db: Db,
  ctx: HandlerContext,
  now: number,
  to: string,
): Promise<AuthenticatedToken> {
  const current = await authenticate(db, ctx, now);
  if (!permits(current.scope, {})) throw refuse(403, "forbidden", `A limited token cannot ${to}.`);
  return current;
}

/** Returns 401: the token ended since the gateway checked it. */
export const ended = () => refuse(401, "unauthenticated", "The token is no longer valid.");
