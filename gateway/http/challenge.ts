import type { TokenError } from "./problem.ts";

/** What a client asks for at first, and once it was refused to write; the role of the consent decides. */
const SCOPES = { first: "platform:read", more: "platform:write" };

/**
 * Returns what WWW-Authenticate says with a 401, and with the 403 of a machine whose role is too low: where the
 * metadata of the API is, which leads OAuth clients to the authorization server (RFC 9728, section 5.1).
 */
export function bearerChallenge(resourceMetadata: string, error: TokenError | undefined): string {
  const scope = error === "insufficient_scope" ? SCOPES.more : SCOPES.first;
  const wrong = error === undefined ? "" : `, error="${error}"`;
  return `Bearer resource_metadata="${resourceMetadata}", scope="${scope}"${wrong}`;
}
