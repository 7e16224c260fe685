import { randomBytes } from "node:crypto";
import type { IdentityProvider } from "../port.ts";
import { readMetadata } from "./client-metadata.ts";

type Answer = {
  result:
    | { case: "client"; value: string }
    | { case: "error"; value: { error: string; errorDescription: string } };
};

/** Registers clients by RFC 7591: every one is public, and proves itself by PKCE (docs/oauth.md#registration). */
export function clientRegistration(deps: { provider: IdentityProvider; now: () => number }) {
  return async (metadata: Buffer, _ip: string): Promise<Answer> => {
    const read = readMetadata(metadata);
    if ("error" in read) return { result: { case: "error", value: read } };
    const client = {
      client_id: randomBytes(16).toString("base64url"),
      client_id_issued_at: Math.floor(deps.now() / 1000),
      ...read.client,
    };
    await deps.provider.registerClient(client);
    return { result: { case: "client", value: JSON.stringify(client) } };
  };
}
