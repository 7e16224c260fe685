import { randomBytes } from "node:crypto";
import type { Pool } from "../../../kit/postgres/db.ts";
import type { IdentityProvider } from "../port.ts";
import { deleteClient, insertClient } from "../sql.ts";
import { readMetadata } from "./client-metadata.ts";

type Answer = {
  result:
    | { case: "client"; value: string }
    | { case: "error"; value: { error: string; errorDescription: string } };
};

/** Registers clients by RFC 7591: every one is public, and proves itself by PKCE (docs/oauth.md#registration). */
export function clientRegistration(deps: { pool: Pool; provider: IdentityProvider; now: () => number }) {
  const { pool, provider, now } = deps;
  return async (metadata: Buffer, _ip: string): Promise<Answer> => {
    const read = readMetadata(metadata);
    if ("error" in read) return { result: { case: "error", value: read } };
    const client = {
      client_id: randomBytes(16).toString("base64url"),
      client_id_issued_at: Math.floor(now() / 1000),
      ...read.client,
    };
    // The row first: whatever is at the provider has one, by which it is found when it has to go.
    await insertClient(pool, client, new Date(now()));
    const refusal = await provider.registerClient(client);
    if (refusal) {
      await deleteClient(pool, client.client_id);
      return { result: { case: "error", value: refusal } };
    }
    return { result: { case: "client", value: JSON.stringify(client) } };
  };
}
