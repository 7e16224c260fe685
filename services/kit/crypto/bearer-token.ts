import { createHash, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";

/** `pat`: a user's personal token. `ses`: a session made by signing in. */
export type TokenKind = "pat" | "ses";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const RANDOM_DIGITS = 30;
const CHECK_DIGITS = 6;
const SHAPE = /^berth_(pat|ses)_[0-9A-Za-z]{36}$/;

/** Returns a new token: `berth_<kind>_`, 30 random base62 digits (178 bits), 6 of a CRC32 (docs/identity.md#tokens). */
export function makeToken(kind: TokenKind): string {
  let text = `berth_${kind}_`;
  for (let i = 0; i < RANDOM_DIGITS; i++) text += BASE62[randomInt(BASE62.length)];
  return text + checkDigits(text);
}

/**
 * Returns the kind of a text with the shape and check digits of a token, else undefined. Anyone can compute the digits:
 * they only keep mistyped and foreign texts from the database.
 */
export function parseToken(text: string): TokenKind | undefined {
  const kind = SHAPE.exec(text)?.[1] as TokenKind | undefined;
  return kind && checkDigits(text.slice(0, -CHECK_DIGITS)) === text.slice(-CHECK_DIGITS) ? kind : undefined;
}

/** Returns the SHA-256 of a token, 32 bytes: the only form in which tokens are stored and looked up. */
export function hashToken(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Returns the part of a token that lists show. The last digits are check digits, so they reveal nothing useful. */
export function lastFour(text: string): string {
  return text.slice(-4);
}

function checkDigits(before: string): string {
  let rest = crc32(before);
  let digits = "";
  for (let i = 0; i < CHECK_DIGITS; i++) {
    digits = BASE62[rest % 62] + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}
