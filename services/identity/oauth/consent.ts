// The rules of a consent, whichever way the client asks for it (docs/oauth.md#consent).
import { GrantCreatedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Pool, Tx } from "../../kit/postgres/db.ts";
import { atLeast, type RoleName } from "../../kit/rpc/caller-token.ts";
import type { Who } from "../../kit/rpc/interceptor.ts";
import { refuse } from "../../kit/rpc/refusals.ts";
import { findMember, listAccountsByUser } from "../accounts/sql.ts";
import { GRANT_SECONDS, recordRevoked } from "../grants/lifecycle.ts";
import type { Grant } from "../grants/sql.ts";
import * as grants from "../grants/sql.ts";
import type { AuthorizationRequest, ClientView } from "./port.ts";
import { authorizeClient } from "./registration/sql.ts";

/** The maximum number of grants of a user to one client: a client that asks at every start would add one each time. */
const MAX_GRANTS = 100;

/** Returns the user's accounts, sorted by handle, each with the roles that the user can grant there. */
export async function listGrantable(pool: Pool, userId: string) {
  const mine = { userId, accountId: undefined };
  const accounts = await listAccountsByUser(pool, mine, { before: undefined, limit: undefined });
  const grantable = accounts.map((row) => ({ ...row, grantableRoles: grantableRoles(row.myRole) }));
  return grantable.sort((a, b) => (a.handle < b.handle ? -1 : 1));
}

function grantableRoles(role: RoleName): string[] {
  return role === "reader" ? ["reader"] : ["reader", "editor"];
}

/** Returns the user's membership. Throws 403 when there is none, or its role is too low. */
export async function requireGrantable(db: Pool | Tx, { accountId, userId, role }: Grant) {
  const member = await findMember(db, accountId, userId);
  if (!member) throw refuse(403, "not_a_member", "The caller is not a member of this account.");
  if (!atLeast(member.role, role))
    throw refuse(
      403,
      "role_not_grantable",
      `The caller's role there is ${member.role}, which cannot grant ${role}.`,
    );
  return member;
}

/** Throws 403 when the request is for another user. */
export function requireSubject({ subject }: AuthorizationRequest, userId: string): void {
  if (subject !== undefined && subject !== userId)
    throw refuse(
      403,
      "subject_mismatch",
      "This request belongs to another user. Sign in as that user, or begin again.",
    );
}

/**
 * Stores a grant with its event and audit record, and revokes the user's oldest to this client. Throws 403 when the user
 * may no longer give it. `about` is what else the audit record says.
 */
export async function commitGrant(
  tx: Tx,
  by: Who,
  grant: Grant & { clientName: string },
  at: Date,
  about: Record<string, string> = {},
): Promise<void> {
  const { id: grantId, userId, clientId, clientName, accountId, role } = grant;
  const { id: membershipId } = await requireGrantable(tx, grant);
  const expiresAt = new Date(at.getTime() + GRANT_SECONDS * 1000);
  await grants.insertGrant(tx, { ...grant, membershipId, grantedAt: at, expiresAt });
  const older = await grants.revokeGrants(tx, { userId, clientId, keep: MAX_GRANTS }, at);
  await recordRevoked(tx, by, older, { reason: "newer", at });
  await authorizeClient(tx, clientId, at);
  await emit(tx, GrantCreatedSchema, accountId, { grantId, userId, clientId, clientName, accountId, role });
  await audit(tx, by, {
    service: "identity",
    accountId,
    action: "oauth.consent.granted",
    target: grantId,
    metadata: { clientId, clientName, role, ...about },
  });
}

/** Writes the audit record of a request that was denied; `userId` is "" where nobody had signed in. */
export function recordDenied(tx: Tx, by: Who, { userId, client }: { userId: string; client: ClientView }) {
  const { clientId, clientName } = client;
  return audit(tx, by, {
    service: "identity",
    accountId: "",
    action: "oauth.consent.denied",
    target: userId,
    metadata: { clientId, clientName },
  });
}
