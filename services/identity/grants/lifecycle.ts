import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { GrantRevokedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { auditRecord } from "../../kit/events/audit.ts";
import { emitAll, eventOf } from "../../kit/events/outbox.ts";
import { newId } from "../../kit/ids.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Who } from "../../kit/rpc/interceptor.ts";
import { type RevokedGrant, revokeGrant, revokeGrantsOf, revokeUnused } from "./sql.ts";

const DAY_SECONDS = 24 * 3600;

/** The lifetime of a grant, longer than that of any refresh token. */
export const GRANT_SECONDS = 365 * DAY_SECONDS;
/** The lifetime of a refresh token, which is rotated at each use. */
export const REFRESH_SECONDS = 30 * DAY_SECONDS;
/** A grant ends when none of its tokens was used for longer than the lifetime of its last refresh token. */
const UNUSED_SECONDS = REFRESH_SECONDS + DAY_SECONDS;
const BATCH = 500;

/** Why the provider ended a grant: its client revoked a token, or a code or refresh token was used twice. */
export type GrantEnd = { by: "client" | "reuse"; ip: string; requestId: string };

/** Returns the function that records that a grant ended at the provider. A grant that is already revoked is unchanged. */
export function grantEndedAtProvider({ pool, now }: { pool: Pool; now: () => number }) {
  return (grantId: string, { by, ip, requestId }: GrantEnd): Promise<void> =>
    transaction(pool, async (tx) => {
      const at = new Date(now());
      const revoked = await revokeGrant(tx, grantId, at);
      if (!revoked) return;
      // A second use has no known author: it may be an attacker.
      const caller: Who["caller"] =
        by === "client"
          ? { kind: "machine", id: revoked.userId, tokenId: grantId, ip }
          : { kind: "service", id: "identity", ip };
      await recordRevoked(tx, { caller, requestId: requestId || newId("req") }, [revoked], {
        reason: by,
        at,
      });
    });
}

/** Writes events and audit records of grants that were revoked. */
export async function recordRevoked(
  tx: Tx,
  by: Who,
  grants: RevokedGrant[],
  {
    reason,
    at,
  }: { reason: "user" | "newer" | "claimed" | "unused" | "owner" | "account" | GrantEnd["by"]; at: Date },
): Promise<void> {
  const records = grants.flatMap(({ id: grantId, userId, clientId, clientName, accountId }) => {
    const about = { userId, clientId, clientName, grantId, accountId, reason };
    const entry = { service: "identity", accountId, action: "oauth.grant.revoked", target: grantId };
    return [
      eventOf(GrantRevokedSchema, accountId, { ...about, at: timestampFromDate(at) }),
      auditRecord(by, { ...entry, metadata: { clientId, reason } }),
    ];
  });
  await emitAll(tx, records);
}

/**
 * Revokes everything that a user granted, when the user is deleted, or when the owner of the e-mail has taken the user
 * over (`claimed`). Refresh tokens stay at the provider, but are refused.
 */
export async function revokeAllGrants(
  tx: Tx,
  by: Who,
  userId: string,
  { reason, at }: { reason: "user" | "claimed"; at: Date },
): Promise<void> {
  await recordRevoked(tx, by, await revokeGrantsOf(tx, userId, at), { reason, at });
}

/**
 * Revokes the grants that were not used for 31 days. These include grants that ended only at the provider, because the
 * refresh token expired or was revoked there.
 */
export async function revokeUnusedGrants(pool: Pool, now: Date): Promise<void> {
  const before = new Date(now.getTime() - UNUSED_SECONDS * 1000);
  const by: Who = { caller: { kind: "service", id: "identity", ip: "" }, requestId: newId("req") };
  const revokeBatch = async (tx: Tx) => {
    const revoked = await revokeUnused(tx, before, BATCH, now);
    await recordRevoked(tx, by, revoked, { reason: "unused", at: now });
    return revoked.length;
  };
  while ((await transaction(pool, revokeBatch)) === BATCH);
}
