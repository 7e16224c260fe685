import { randomBytes } from "node:crypto";
import { ClientRegisteredSchema } from "../../../../proto/gen/berth/identity/v1/events_pb.ts";
import { audit } from "../../../kit/events/audit.ts";
import { emit } from "../../../kit/events/outbox.ts";
import { type Pool, transaction } from "../../../kit/postgres/db.ts";
import type { Who } from "../../../kit/rpc/interceptor.ts";
import type { ClientDocument, IdentityProvider, RegistrationRefusal } from "../port.ts";
import { builtInClientFor } from "./built-in.ts";
import { type MetadataRules, readMetadata } from "./client-metadata.ts";
import { deleteClient, insertClient, markBeyond, markClient } from "./sql.ts";

type Answer = { result: { case: "client"; value: string } | { case: "error"; value: RegistrationRefusal } };

/** The maximum number of clients that no user has authorized; the oldest beyond it are evicted. */
const MAX_NEVER_AUTHORIZED = 10_000;
const EVICTION_BATCH = 100;

/**
 * Registers clients by RFC 7591, as public clients that use PKCE (docs/oauth.md#registration). `by` is the sender of the
 * metadata, JSON of at most 16 KiB.
 */
export function clientRegistration(deps: {
  pool: Pool;
  provider: IdentityProvider;
  rules: MetadataRules;
  now: () => number;
  /** The maximum number of clients that no user has authorized. */
  keep?: number;
}) {
  const { pool, provider, rules, now, keep = MAX_NEVER_AUTHORIZED } = deps;

  /** Every copy of a built-in client gets the same one, which has no row; the provider may have to be told of it. */
  async function registerBuiltIn(client: ClientDocument): Promise<Answer> {
    const refusal = await provider.registerClient(client);
    if (refusal) return { result: { case: "error", value: refusal } };
    const issued = Math.floor(now() / 1000);
    return { result: { case: "client", value: JSON.stringify({ ...client, client_id_issued_at: issued }) } };
  }

  return async (metadata: Uint8Array, by: Who): Promise<Answer> => {
    const read = readMetadata(metadata, rules);
    if ("error" in read) return { result: { case: "error", value: read } };
    const builtIn = builtInClientFor(read.client, rules);
    if (builtIn) return registerBuiltIn(builtIn);
    const at = new Date(now());
    const clientId = randomBytes(16).toString("base64url");
    const issued = Math.floor(at.getTime() / 1000);
    const client = { client_id: clientId, client_id_issued_at: issued, ...read.client };
    // The row first: every client at the provider has one, by which the sweep finds it.
    await insertClient(pool, client, at);
    const refusal = await provider.registerClient(client).catch(async (error: unknown) => {
      // The provider may have registered it nevertheless.
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
      await markBeyond(tx, { keep, batch: EVICTION_BATCH }, at);
    });
    return { result: { case: "client", value: JSON.stringify(client) } };
  };
}
