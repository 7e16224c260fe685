import type { Grant } from "./port.ts";

export const READ = "platform:read";
export const WRITE = "platform:write";
/** Asks for a refresh token. */
export const OFFLINE = "offline_access";

/** Returns the scopes that a role stands for. Of them a token has those that its client asked for, and reading. */
export function scopesOf(role: Grant["role"]): string[] {
  return role === "editor" ? [READ, WRITE] : [READ];
}

/** Whether two spellings name one resource: SDKs differ in the slash at the end. */
export function sameResource(one: string, other: string): boolean {
  return one.replace(/\/$/, "") === other.replace(/\/$/, "");
}
