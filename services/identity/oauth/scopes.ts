import type { Grant } from "../grants/sql.ts";

export const READ = "platform:read";
export const WRITE = "platform:write";
/** Asks for a refresh token. */
export const OFFLINE = "offline_access";

/** The grant type of devices without a browser (RFC 8628). */
export const DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code";

/** Returns the scopes of a role. A token has those of them that its client requested, and always that for reading. */
export function scopesOf(role: Grant["role"]): string[] {
  return role === "editor" ? [READ, WRITE] : [READ];
}

/** Returns those of the requested scopes that are not about the API: for an ID token, and for a refresh token. */
export function oidcScopesOf(requested: string[]): string[] {
  return requested.filter((scope) => scope === "openid" || scope === OFFLINE);
}

/** Whether two spellings name one resource: SDKs differ in the trailing slash. */
export function sameResource(one: string, other: string): boolean {
  return one.replace(/\/$/, "") === other.replace(/\/$/, "");
}

/** What tokens can be for: the API, and the tools of MCP at the origin. */
export type Resources = { origin: string; resource: string };

/** Returns the tools of MCP as a resource: the URL that their clients connect to (docs/mcp.md#access). */
export function toolsOf({ origin }: Resources): string {
  return `${origin}/mcp`;
}

/** Returns which of the installation's resources is meant; undefined for one that is not of this installation. */
export function findResource(requested: string, own: Resources): string | undefined {
  return [own.resource, toolsOf(own)].find((each) => sameResource(requested, each));
}

/**
 * Returns the resources that a client means in all their spellings, those of the API if it names none; undefined if one is
 * not of this installation.
 */
export function findSpellings(requested: string[], own: Resources): string[] | undefined {
  const found = requested.map((each) => findResource(each, own));
  if (found.includes(undefined)) return undefined;
  const meant = found.length > 0 ? (found as string[]) : [own.resource];
  return [...new Set(meant)].flatMap(spellingsOf);
}

/** Returns both spellings of a resource, for clients that use one for the request and the other for its tokens. */
export function spellingsOf(resource: string): string[] {
  const plain = resource.replace(/\/$/, "");
  return [...new Set([resource, plain, `${plain}/`])];
}
