import { randomBytes } from "node:crypto";
import { ClientRegisteredSchema } from "../../../../proto/gen/berth/identity/v1/events_pb.ts";
import { audit } from "../../../kit/events/audit.ts";
import { emit } from "../../../kit/events/outbox.ts";
import { type Pool, transaction } from "../../../kit/postgres/db.ts";
import type { Who } from "../../../kit/rpc/interceptor.ts";
import type { IdentityProvider, RegistrationRefusal } from "../port.ts";
import { readMetadata } from "./client-metadata.ts";
import type { RedirectRules } from "./redirect-uri.ts";
import { deleteClient, insertClient, markBeyond, markClient } from "./sql.ts";

type Answer = { result: { case: "client"; value: string } | { case: "error"; value: RegistrationRefusal } };

/** How many clients that nobody let in are kept; more push out the oldest. */
const MAX_NEVER_AUTHORIZED = 10_000;
const EVICTED_AT_ONCE = 100;

/**
 * Registers clients by RFC 7591: every one is public, and proves itself by PKCE (docs/oauth.md#registration). `by` is
 * who sent the metadata, JSON of at most 16 KiB.
 */
export function clientRegistration(deps: {
  pool: Pool;
  provider: IdentityProvider;
  rules: RedirectRules;
  now: () => number;
  /** How many clients that nobody let in are kept. */
  keep?: number;
}) {
  const { pool, provider, rules, now, keep = MAX_NEVER_AUTHORIZED } = deps;
  return async (metadata: Uint8Array, by: Who): Promise<Answer> => {
    const read = readMetadata(metadata, rules);
    if ("error" in read) return { result: { case: "error", value: read } };
    const at = new Date(now());
    const clientId = randomBytes(16).toString("base64url");
    const issued = Math.floor(at.getTime() / 1000);
    const client = { client_id: clientId, client_id_issued_at: issued, ...read.client };
    // The row first: whatever is at the provider has one, by which the sweep finds it.
    await insertClient(pool, client, at);
    const refusal = await provider.registerClient(client).catch(async (error: unknown) => {
      // It may have arrived there nevertheless.
      await markClient(pool, clientId, at);
      throw error;
    });
    if (refusal) {
      await deleteClient(pool, clientId);
      return { result: { case: "error", value: refusal } };
    }
    await transaction(pool, async (tx) => {
      const { client_name: clientName } = client;
      await emit(tx, ClientRegisteredSchema, "", { clientId, clientName });
      const entry = {
        service: "identity",
        accountId: "",
        action: "oauth.client.registered",
        target: clientId,
      };
      await audit(tx, by, { ...entry, metadata: { clientName } });
      await markBeyond(tx, { keep, batch: EVICTED_AT_ONCE }, at);
    });
    return { result: { case: "client", value: JSON.stringify(client) } };
  };
}
