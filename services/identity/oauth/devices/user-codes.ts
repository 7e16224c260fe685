import { createMacs } from "../../../kit/crypto/mac.ts";

/** Consonants only, so that no code is a word. Eight of them are 34 bits: enough for ten minutes and ten guesses. */
export const CHARSET = "base-20";
export const MASK = "****-****";
const SHAPE = /^[BCDFGHJKLMNPQRSTVWXZ]{8}$/;

/** Returns a user code as it is stored: without case, spaces and hyphens. Undefined for what cannot be one. */
export function readUserCode(typed: string): string | undefined {
  const code = typed.toUpperCase().replace(/[\s\p{Pd}]/gu, "");
  return SHAPE.test(code) ? code : undefined;
}

/** Returns a stored user code as devices show it. */
export function shownUserCode(code: string): string {
  return `${code.slice(0, 4)}-${code.slice(4)}`;
}

/** Returns the MACs under which user codes are stored: the hash of such a short text would not hide it. */
export function userCodeMacs(secrets: Buffer[]) {
  return createMacs(secrets, "oauth user codes");
}
