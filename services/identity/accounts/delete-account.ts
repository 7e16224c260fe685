import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { type Client, ConnectError } from "@connectrpc/connect";
import type { InternalService as Billing } from "../../../proto/gen/berth/billing/v1/internal_pb.ts";
import type { InternalService as Deployer } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import {
  AccountDeletedSchema,
  MemberRemovedSchema,
  TokenRevokedSchema,
} from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit, emitAll, eventOf } from "../../kit/events/outbox.ts";
import type { Pool, Tx } from "../../kit/postgres/db.ts";
import type { Who } from "../../kit/rpc/interceptor.ts";
import { conflict, notFound, unavailable } from "../../kit/rpc/refusals.ts";
import { recordRevoked } from "../grants/lifecycle.ts";
import { revokeGrantsIn } from "../grants/sql.ts";
import { findBootstrap } from "../installation/sql.ts";
import { revokeTokensOfAccount } from "../tokens/sql.ts";
import * as sql from "./sql.ts";

/** The services that hold an account's resources and subscription; undefined where their URLs are not configured. */
export type Neighbours = {
  deployer: Pick<Client<typeof Deployer>, "countResources"> | undefined;
  billing: Pick<Client<typeof Billing>, "findSubscription"> | undefined;
};

const TIMEOUT_MS = 5_000;

/**
 * Throws 409 for an account that cannot be deleted (docs/identity.md#deleting-an-account): the installation's first one,
 * one with an active subscription, and any whose impact is not confirmed. Throws 503 when a service does not answer.
 */
export async function requireDeletable(
  { pool, deployer, billing }: Neighbours & { pool: Pool },
  accountId: string,
  confirmed: boolean | undefined,
): Promise<void> {
  if ((await findBootstrap(pool))?.accountId === accountId)
    throw conflict(
      "first_account",
      "The installation began with this account, whose owners operate it. It cannot be deleted.",
    );
  if (!deployer || !billing) throw unavailable();
  const options = { timeoutMs: TIMEOUT_MS };
  const [resources, { subscribed }, members] = await Promise.all([
    deployer.countResources({ accountId }, options),
    billing.findSubscription({ accountId }, options),
    sql.countMembers(pool, accountId),
  ]).catch((error) => {
    // Unavailable, or of a version without these methods.
    throw error instanceof ConnectError ? unavailable() : error;
  });
  if (subscribed)
    throw conflict(
      "subscription_active",
      `The account has a subscription. Cancel it first, at DELETE /accounts/${accountId}/subscription; a monthly one runs to the end of its period.`,
    );
  if (confirmed) return;
  const { projects, environments, services } = resources;
  const impact = { projects, environments, services, members };
  throw conflict(
    "impact_confirmation_required",
    "This deletes the account with everything in it, for all members. Send confirmImpact: true to confirm.",
    { impact },
  );
}

/** Deletes an account: from the commit on it has no members, and AccountDeleted makes the other services follow. */
export async function deleteAccount(tx: Tx, by: Who, accountId: string, now: Date): Promise<void> {
  const deleted = await sql.deleteAccount(tx, accountId, now);
  if (!deleted) throw notFound("account");
  const at = timestampFromDate(now);
  const byUserId = by.caller.id;
  await recordRevoked(tx, by, await revokeGrantsIn(tx, accountId, now), { reason: "account", at: now });
  const revoked = await revokeTokensOfAccount(tx, accountId, now);
  const members = await sql.deleteMembershipsIn(tx, accountId);
  await emitAll(tx, [
    ...revoked.map((tokens) => eventOf(TokenRevokedSchema, accountId, { ...tokens, at })),
    ...members.map((userId) => eventOf(MemberRemovedSchema, accountId, { accountId, userId, byUserId, at })),
  ]);
  await emit(tx, AccountDeletedSchema, accountId, { accountId, byUserId, at });
  const entry = { service: "identity", accountId, action: "account.delete", target: accountId };
  await audit(tx, by, { ...entry, metadata: { handle: deleted.handle } });
}
