import { timestampFromDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { TokenCreatedSchema, TokenRevokedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { hashToken, lastFour } from "../../kit/crypto/bearer-token.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import { newId } from "../../kit/ids.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import type { Who } from "../../kit/rpc/interceptor.ts";
import { revokeAllGrants } from "../grants/lifecycle.ts";
import * as sql from "./sql.ts";

type TokenOptions = Pick<sql.NewToken, "name" | "roleCap" | "accountId" | "createdAt" | "expiresAt">;

/** Stores a personal token with this text, with event and audit record. Throws when the text was used before. */
export async function issueToken(tx: Tx, by: Who, userId: string, text: string, options: TokenOptions) {
  const hash = hashToken(text);
  const row = await sql.insertToken(tx, {
    ...options,
    id: newId("tok"),
    userId,
    kind: "token",
    hash,
    lastFour: lastFour(text),
  });
  if (!row) throw new Error("This token text is in use");
  const { name, roleCap, accountId = "" } = options;
  await emit(tx, TokenCreatedSchema, accountId, { userId, tokenId: row.id, name });
  await audit(tx, by, {
    service: "identity",
    accountId,
    action: "token.created",
    target: row.id,
    metadata: { name, ...(roleCap && { roleCap }) },
  });
  return { ...row, token: text };
}

/** Revokes a session or token, with event and audit record. Returns undefined when none could be revoked. */
export async function revokeToken(
  tx: Tx,
  by: Who,
  token: { id: string; userId: string; kind: "session" | "token"; now: number },
) {
  const row = await sql.revokeToken(tx, { ...token, now: new Date(token.now) });
  if (!row) return undefined;
  const accountId = row.accountId ?? "";
  const personal = token.kind === "token" && { name: row.name, personalTokens: 1 };
  const event = { userId: token.userId, tokenId: row.id, ...personal, at: timestampFromMs(token.now) };
  await emit(tx, TokenRevokedSchema, accountId, event);
  const entry = { service: "identity", accountId, action: "token.revoked", target: row.id };
  await audit(tx, by, { ...entry, metadata: { kind: token.kind } });
  return row;
}

/**
 * Revokes the sessions of a user except `except`, with `personalToo` also personal tokens and grants, and has gateways
 * drop them from their caches. Returns how many sessions and tokens were revoked.
 */
export async function revokeAllTokens(
  tx: Tx,
  by: Who,
  tokens: Parameters<typeof sql.revokeTokens>[1],
): Promise<number> {
  const { userId, now } = tokens;
  const { revoked, personalTokens } = await sql.revokeTokens(tx, tokens);
  if (revoked > 0)
    await emit(tx, TokenRevokedSchema, "", { userId, personalTokens, at: timestampFromDate(now) });
  if (tokens.personalToo) await revokeAllGrants(tx, by, userId, { reason: "claimed", at: now });
  return revoked;
}
