import type { GatewayResponse } from "../http/response.ts";

/** Returns an error as OAuth shapes it (RFC 6749, section 5.2, and RFC 7591, section 3.2.2). */
export function oauthError(status: number, error: string, description: string) {
  const body = Buffer.from(JSON.stringify({ error, error_description: description }));
  return { status, body, code: error } satisfies GatewayResponse;
}
