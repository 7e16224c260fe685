import fc from "fast-check";
import { expect, test } from "vitest";
import { hashToken, lastFour, makeToken, parseToken, type TokenKind } from "./bearer-token.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const kinds = fc.constantFrom<TokenKind>("pat", "ses");

// CRC-32 bit by bit, as the standard defines it: what outside checkers will compute.
function crc32(text: string): number {
  let crc = 0xffffffff;
  for (const byte of Buffer.from(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

test("a new token has the documented shape, and its last six digits are the CRC32 of what is before", () => {
  fc.assert(
    fc.property(kinds, (kind) => {
      const token = makeToken(kind);
      expect(token).toMatch(new RegExp(`^berth_${kind}_[0-9A-Za-z]{36}$`));
      const digits = [...token.slice(-6)].reduce((sum, digit) => sum * 62 + BASE62.indexOf(digit), 0);
      expect(digits).toBe(crc32(token.slice(0, -6)));
      expect(parseToken(token)).toBe(kind);
    }),
  );
});

test("a token with any one character mistyped is refused", () => {
  fc.assert(
    fc.property(kinds, fc.nat(45), fc.constantFrom(...BASE62, "_", "-", " "), (kind, at, other) => {
      const token = makeToken(kind);
      fc.pre(token[at] !== other);
      expect(parseToken(token.slice(0, at) + other + token.slice(at + 1))).toBeUndefined();
    }),
  );
});

test("two neighbouring characters swapped are noticed", () => {
  fc.assert(
    fc.property(kinds, fc.integer({ min: 10, max: 44 }), (kind, at) => {
      const token = makeToken(kind);
      fc.pre(token[at] !== token[at + 1]);
      const swapped = token.slice(0, at) + token[at + 1] + token[at] + token.slice(at + 2);
      expect(parseToken(swapped)).toBeUndefined();
    }),
  );
});

test("no other text is taken for a token", () => {
  const texts = fc.oneof(
    fc.string(),
    fc.stringMatching(/^berth_(pat|ses)_[0-9A-Za-z]{0,40}$/),
    kinds.map((kind) => `${makeToken(kind)}\n`),
    kinds.map((kind) => ` ${makeToken(kind)}`),
  );
  fc.assert(
    fc.property(texts, (text) => {
      expect(parseToken(text)).toBeUndefined();
    }),
  );
});

test("tokens do not repeat, and their hash has 32 bytes and is not the token", () => {
  const tokens = Array.from({ length: 2_000 }, () => makeToken("pat"));
  expect(new Set(tokens).size).toBe(tokens.length);
  const token = tokens[0]!;
  expect(hashToken(token)).toHaveLength(32);
  expect(hashToken(token).equals(hashToken(token))).toBe(true);
  expect(new Set(tokens.map((each) => hashToken(each).toString("hex"))).size).toBe(tokens.length);
  expect(token.endsWith(lastFour(token))).toBe(true);
});
