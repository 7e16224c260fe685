import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { GrantRevokedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import { newId } from "../../kit/ids.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Who } from "../../kit/rpc/interceptor.ts";
import { type RevokedGrant, revokeGrant, revokeGrantsOf, revokeUnused } from "./sql.ts";

const DAY_SECONDS = 24 * 3600;

/** A grant ends by itself after this, longer than any refresh token lives. */
export const GRANT_SECONDS = 365 * DAY_SECONDS;
/** A refresh token lasts so long, and is replaced at each use. */
export const REFRESH_SECONDS = 30 * DAY_SECONDS;
/** A grant ends when none of its tokens was used for longer than the last refresh token can have lasted. */
const UNUSED_SECONDS = REFRESH_SECONDS + DAY_SECONDS;
const ENDED_AT_ONCE = 500;

/** Why the provider ended a grant: its client revoked a token, or a code or refresh token was used twice. */
export type GrantEnd = { by: "client" | "reuse"; ip: string; requestId: string };

/** Records that a grant ended at the provider. A grant that was revoked before stays as it is. */
export function revokedAtProvider({ pool, now }: { pool: Pool; now: () => number }) {
  return (grantId: string, { by, ip, requestId }: GrantEnd): Promise<void> =>
    transaction(pool, async (tx) => {
      const at = new Date(now());
      const revoked = await revokeGrant(tx, grantId, at);
      if (!revoked) return;
      // Nobody knows who used something twice: it may be a thief.
      const caller: Who["caller"] =
        by === "client"
          ? { kind: "machine", id: revoked.userId, tokenId: grantId, ip }
          : { kind: "service", id: "identity", ip };
      await recordRevoked(tx, { caller, requestId: requestId || newId("req") }, revoked, { reason: by, at });
    });
}

/** Writes event and audit record of a grant that was revoked. */
export async function recordRevoked(
  tx: Tx,
  by: Who,
  { id: grantId, userId, clientId, clientName, accountId }: RevokedGrant,
  {
    reason,
    at,
  }: { reason: "user" | "newer" | "claimed" | "unused" | "owner" | "account" | GrantEnd["by"]; at: Date },
): Promise<void> {
  const about = { userId, clientId, clientName, grantId, accountId, reason };
  await emit(tx, GrantRevokedSchema, accountId, { ...about, at: timestampFromDate(at) });
  const entry = { service: "identity", accountId, action: "oauth.grant.revoked", target: grantId };
  await audit(tx, by, { ...entry, metadata: { clientId, reason } });
}

/**
 * Revokes everything that a user granted: who is deleted, or whose e-mail turned out to be somebody else's (`claimed`).
 * Refresh tokens stay at the provider, where they get nothing any more.
 */
export async function revokeAllGrants(
  tx: Tx,
  by: Who,
  userId: string,
  { reason, at }: { reason: "user" | "claimed"; at: Date },
): Promise<void> {
  for (const grant of await revokeGrantsOf(tx, userId, at))
    await recordRevoked(tx, by, grant, { reason, at });
}

/**
 * Revokes the grants that were not used for 31 days. What ended at the provider alone, as its refresh token expired or
 * somebody revoked it there, is among them.
 */
export async function revokeUnusedGrants(pool: Pool, now: Date): Promise<void> {
  const before = new Date(now.getTime() - UNUSED_SECONDS * 1000);
  const by: Who = { caller: { kind: "service", id: "identity", ip: "" }, requestId: newId("req") };
  const revokeSome = async (tx: Tx) => {
    const revoked = await revokeUnused(tx, before, ENDED_AT_ONCE, now);
    for (const grant of revoked) await recordRevoked(tx, by, grant, { reason: "unused", at: now });
    return revoked.length;
  };
  while ((await transaction(pool, revokeSome)) === ENDED_AT_ONCE);
}
