import { randomBytes } from "node:crypto";

const CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz";

/**
 * Returns a new id: prefix, `_`, and 26 characters of Crockford base32 of a UUIDv7, so that ids sort by creation
 * (docs/conventions.md#ids).
 */
export function newId(prefix: string, now = Date.now()): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(now, 0, 6);
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  let bits = 0n;
  for (const byte of bytes) bits = (bits << 8n) | BigInt(byte);
  let out = "";
  for (let i = 0; i < 26; i++, bits >>= 5n) out = CROCKFORD[Number(bits & 31n)] + out;
  return `${prefix}_${out}`;
}

/** Returns when an id was made, in ms since 1970. */
export function madeAt(id: string): number {
  const digits = id.slice(id.lastIndexOf("_") + 1);
  let bits = 0n;
  for (const digit of digits) bits = (bits << 5n) | BigInt(CROCKFORD.indexOf(digit));
  return Number(bits >> 80n);
}
