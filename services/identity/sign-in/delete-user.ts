import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { MemberRemovedSchema, UserDeletedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { audit, auditRecord } from "../../kit/events/audit.ts";
import { emit, emitAll, eventOf } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import type { Who } from "../../kit/rpc/interceptor.ts";
import { conflict } from "../../kit/rpc/refusals.ts";
import { deleteMembershipsOf, listSolelyOwned, lockAccountsOf } from "../accounts/sql.ts";
import { revokeAllGrants } from "../grants/lifecycle.ts";
import { findBootstrap } from "../installation/sql.ts";
import { deletePasswordResets } from "../passwords/sql.ts";
import { revokeAllTokens } from "../tokens/lifecycle.ts";
import * as users from "../users/sql.ts";

/**
 * Deletes a user whose password was checked (docs/identity.md#deleting-a-user), with memberships, tokens and grants.
 * Throws 409: first_owner, last_owner with the accounts, or conflict when the password was changed meanwhile.
 */
export async function deleteUser(
  tx: Tx,
  by: Who,
  user: { id: string; passwordHash: string; now: Date },
): Promise<void> {
  const { id: userId, now } = user;
  if ((await findBootstrap(tx))?.userId === userId)
    throw conflict(
      "first_owner",
      "The installation's settings name this user as its first owner, who cannot be deleted.",
    );
  const locked = new Set(await lockAccountsOf(tx, userId));
  const alone = await listSolelyOwned(tx, userId);
  if (alone.length > 0) throw lastOwner(alone);
  // Before the memberships: afterwards the user cannot become a member of anything.
  if ((await users.deleteUser(tx, user)) === 0)
    throw conflict("conflict", "The password was just changed, or the user deleted, by another request.");
  const memberships = await deleteMembershipsOf(tx, userId);
  if (memberships.some(({ accountId, role }) => role === "owner" && !locked.has(accountId)))
    throw conflict("conflict", "The user just became an owner of another account. Try again.");
  const at = timestampFromDate(now);
  const left = memberships.flatMap(({ accountId, role }) => {
    const entry = { service: "identity", accountId, action: "member.leave", target: userId };
    return [
      eventOf(MemberRemovedSchema, accountId, { accountId, userId, byUserId: userId, at }),
      auditRecord(by, { ...entry, metadata: { role } }),
    ];
  });
  await emitAll(tx, left);
  await revokeAllGrants(tx, by, userId, { reason: "user", at: now });
  await revokeAllTokens(tx, by, { userId, except: undefined, personalToo: true, now });
  await deletePasswordResets(tx, userId);
  await emit(tx, UserDeletedSchema, "", { userId, at });
  await audit(tx, by, { service: "identity", accountId: "", action: "user.delete", target: userId });
}

function lastOwner(accounts: { id: string; handle: string }[]) {
  const handles = accounts.map(({ handle }) => handle).join(", ");
  const message = `Nobody else owns ${handles}. Make another member an owner first, or delete the account.`;
  return conflict("last_owner", message, { accounts });
}
