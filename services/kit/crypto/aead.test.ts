import { expect, test } from "vitest";
import { open, seal } from "./aead.ts";

const key = Buffer.alloc(32, 1);
const context = Buffer.from("here");
const plain = Buffer.from("grüße");

test("what was sealed opens with its key and context, and with no other", () => {
  const sealed = seal(key, context, plain);
  expect(open(key, context, sealed)).toEqual(plain);
  expect(open(key, context, seal(key, context, Buffer.alloc(0)))).toEqual(Buffer.alloc(0));
  expect(open(Buffer.alloc(32, 2), context, sealed)).toBeUndefined();
  expect(open(key, Buffer.from("there"), sealed)).toBeUndefined();
});

test("with one bit changed, or cut at any length, it does not open", () => {
  const sealed = seal(key, context, plain);
  for (let bit = 0; bit < sealed.length * 8; bit++) {
    const changed = Buffer.from(sealed);
    changed[bit >> 3]! ^= 1 << (bit & 7);
    expect(open(key, context, changed)).toBeUndefined();
  }
  for (let length = 0; length < sealed.length; length++)
    expect(open(key, context, sealed.subarray(0, length))).toBeUndefined();
});

test("the same text looks different each time", () => {
  const sealed = Array.from({ length: 1_000 }, () => seal(key, context, plain).toString("hex"));
  expect(new Set(sealed).size).toBe(1_000);
});
