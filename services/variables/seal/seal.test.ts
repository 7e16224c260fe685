import { createSecretKey, randomBytes } from "node:crypto";
import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  KeyUnavailable,
  newDataKey,
  open,
  parseKeys,
  SealBroken,
  type SealContext,
  seal,
  unwrapDataKey,
  wrapDataKey,
} from "./seal.ts";

const ACCOUNT = "acc_1";
const CONTEXT: SealContext = { accountId: ACCOUNT, scope: "project", scopeId: "prj_1", name: "TOKEN" };
const newKey = () => randomBytes(32).toString("base64");
const text = fc.string({ unit: "binary", maxLength: 200 }).filter((value) => value.isWellFormed());

function thrown(action: () => unknown): Error {
  try {
    action();
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was thrown");
}

describe("a sealed value", () => {
  const dataKey = newDataKey();

  test("opens to what was sealed, for any text and context", () => {
    const contexts = fc.record({ accountId: text, scope: text, scopeId: text, name: text });
    fc.assert(
      fc.property(contexts, text, (context, value) => {
        expect(open(dataKey, context, seal(dataKey, context, value))).toBe(value);
      }),
    );
  });

  test("of 64 KiB opens, also from the plain bytes a driver hands over", () => {
    const value = "€".repeat(21_845);
    expect(open(dataKey, CONTEXT, new Uint8Array(seal(dataKey, CONTEXT, value)))).toBe(value);
  });

  test("that an earlier version stored opens, as does its data key", () => {
    const keyring = parseKeys(`k1:${Buffer.alloc(32, 9).toString("base64")}`);
    const wrapped = Buffer.from(
      "ATInpyPaj4SA6ssd7TE+yD5JeLHZ8VsB7ARQE43NB9xOhvbrUC5+T7OwxfhvIPGy9o+0yMRq3FSuvbKl2Q==",
      "base64",
    );
    const storedKey = unwrapDataKey(keyring, ACCOUNT, { kekId: "k1", wrapped });
    expect(storedKey.equals(createSecretKey(Buffer.alloc(32, 3)))).toBe(true);
    const value = Buffer.from("Ab0lO1VM91nMYHe7gPMfYFaUdk5qoxqw6u8sQ83yM83YqgVS", "base64");
    expect(open(storedKey, CONTEXT, value)).toBe("grüße");
  });

  test("looks different each time and is 29 bytes longer than the text", () => {
    const sealed = Array.from({ length: 100 }, () => seal(dataKey, CONTEXT, "same").toString("hex"));
    expect(new Set(sealed).size).toBe(100);
    expect(seal(dataKey, CONTEXT, "same")).toHaveLength(4 + 29);
    expect(sealed.join()).not.toContain(Buffer.from("same").toString("hex"));
  });

  test.each<Partial<SealContext>>([
    { accountId: "acc_2" },
    { scope: "environment" },
    { scopeId: "prj_2" },
    { name: "TOKEN2" },
  ])("does not open once its row is moved to %o", (moved) => {
    const sealed = seal(dataKey, CONTEXT, "v");
    expect(thrown(() => open(dataKey, { ...CONTEXT, ...moved }, sealed))).toBeInstanceOf(SealBroken);
  });

  test("opens at no other context, however the parts are cut", () => {
    const part = fc.stringMatching(/^[a1:|]{0,3}$/);
    const contexts = fc.record({ accountId: part, scope: part, scopeId: part, name: part });
    fc.assert(
      fc.property(contexts, contexts, (one, other) => {
        fc.pre(JSON.stringify(one) !== JSON.stringify(other));
        expect(() => open(dataKey, other, seal(dataKey, one, "v"))).toThrow(SealBroken);
      }),
      { numRuns: 1000 },
    );
    const shifted = { ...CONTEXT, scopeId: "prj_1T", name: "OKEN" };
    expect(() => open(dataKey, shifted, seal(dataKey, CONTEXT, "v"))).toThrow(SealBroken);
  });

  test("with any one bit flipped does not open", () => {
    const sealed = seal(dataKey, CONTEXT, "value");
    for (let bit = 0; bit < sealed.length * 8; bit += 1) {
      const damaged = Buffer.from(sealed);
      damaged[bit >> 3]! ^= 1 << (bit & 7);
      expect(() => open(dataKey, CONTEXT, damaged)).toThrow(SealBroken);
    }
  });

  test("cut short at any length, or with bytes added, does not open", () => {
    const sealed = seal(dataKey, CONTEXT, "value");
    for (let length = 0; length < sealed.length; length += 1) {
      expect(() => open(dataKey, CONTEXT, sealed.subarray(0, length))).toThrow(SealBroken);
    }
    expect(() => open(dataKey, CONTEXT, Buffer.concat([sealed, Buffer.of(0)]))).toThrow(SealBroken);
  });

  test("of a later version is refused rather than guessed at", () => {
    const sealed = seal(dataKey, CONTEXT, "value");
    expect(sealed[0]).toBe(1);
    sealed[0] = 2;
    expect(() => open(dataKey, CONTEXT, sealed)).toThrow(SealBroken);
  });

  test("does not open with another data key, and the error shows the context but no value", () => {
    const error = thrown(() => open(newDataKey(), CONTEXT, seal(dataKey, CONTEXT, "marker-value")));
    expect(error).toBeInstanceOf(SealBroken);
    expect(error.message).toContain("TOKEN");
    expect(inspect(error)).not.toContain("marker-value");
  });

  test("is never made of text that would not come back the same", () => {
    expect(() => seal(dataKey, CONTEXT, "a\ud800b")).toThrow(TypeError);
  });
});

describe("a data key", () => {
  const [first, second] = [newKey(), newKey()];
  const before = parseKeys(`k1:${first}`);
  const during = parseKeys(`k2:${second},k1:${first}`);
  const after = parseKeys(`k2:${second}`);

  test("wrapped and unwrapped opens what it sealed", () => {
    const dataKey = newDataKey();
    const row = wrapDataKey(before, ACCOUNT, dataKey);
    expect(row.kekId).toBe("k1");
    const again = unwrapDataKey(before, ACCOUNT, row);
    expect(open(again, CONTEXT, seal(dataKey, CONTEXT, "v"))).toBe("v");
  });

  test("survives rotation: values stay as they are, only the wrapping changes", () => {
    const dataKey = newDataKey();
    const sealed = seal(dataKey, CONTEXT, "v");
    const old = wrapDataKey(before, ACCOUNT, dataKey);
    expect([old.kekId, before.currentId, during.currentId]).toEqual(["k1", "k1", "k2"]);
    const rewrapped = wrapDataKey(during, ACCOUNT, unwrapDataKey(during, ACCOUNT, old));
    expect(rewrapped.kekId).toBe("k2");
    expect(open(unwrapDataKey(after, ACCOUNT, rewrapped), CONTEXT, sealed)).toBe("v");
  });

  test("whose encryption key is not configured is unavailable, and the error names the missing id", () => {
    const error = thrown(() => unwrapDataKey(after, ACCOUNT, wrapDataKey(before, ACCOUNT, newDataKey())));
    expect(error).toBeInstanceOf(KeyUnavailable);
    expect(error.message).toContain('"k1"');
  });

  test("does not unwrap with another key of the same id, for another account, under another id, or damaged", () => {
    const row = wrapDataKey(during, ACCOUNT, newDataKey());
    const twins = parseKeys(`k2:${second},k3:${second}`);
    const damaged = Buffer.from(row.wrapped);
    damaged[20]! ^= 1;
    const attempts = [
      () => unwrapDataKey(parseKeys(`k2:${newKey()}`), ACCOUNT, row),
      () => unwrapDataKey(during, "acc_2", row),
      () => unwrapDataKey(twins, ACCOUNT, { ...row, kekId: "k3" }),
      () => unwrapDataKey(during, ACCOUNT, { ...row, wrapped: damaged }),
      () => unwrapDataKey(during, ACCOUNT, { ...row, wrapped: Buffer.alloc(0) }),
      () => unwrapDataKey(during, ACCOUNT, { ...row, wrapped: seal(newDataKey(), CONTEXT, "v") }),
    ];
    for (const attempt of attempts) expect(attempt).toThrow(KeyUnavailable);
    expect(unwrapDataKey(twins, ACCOUNT, row).symmetricKeySize).toBe(32);
  });

  test("and the keyring show no key material when printed or serialised", () => {
    const dataKey = newDataKey();
    const material = [dataKey.export(), Buffer.from(first, "base64")];
    const shown =
      inspect([dataKey, before], { depth: 9, showHidden: true }) + JSON.stringify([dataKey, before]);
    for (const key of material) {
      expect(shown).not.toContain(key.toString("base64"));
      expect(shown).not.toContain(key.toString("hex"));
    }
  });
});

describe("the setting of encryption keys", () => {
  const good = newKey();

  test("takes the first key to encrypt with, keeps the others, and ignores space around entries", () => {
    const keyring = parseKeys(` new:${good} , old-1.a:${newKey()}\n`);
    expect(keyring.currentId).toBe("new");
    expect([...keyring.keys.keys()]).toEqual(["new", "old-1.a"]);
  });

  test("takes the URL-safe alphabet and a missing '=' as the same key", () => {
    const key = Buffer.alloc(32, 0xfb);
    const row = wrapDataKey(parseKeys(`k:${key.toString("base64")}`), ACCOUNT, newDataKey());
    expect(unwrapDataKey(parseKeys(`k:${key.toString("base64url")}`), ACCOUNT, row).symmetricKeySize).toBe(
      32,
    );
  });

  const bad: [string, string, RegExp][] = [
    ["nothing", " ", /no key is given.*openssl/],
    ["a key without an id", good, /entry 1 must have the form id:base64/],
    ["an empty id", `:${good}`, /entry 1 needs an id/],
    ["id and key swapped", `${good}:k1`, /entry 1 needs an id/],
    ["a key of 16 bytes", `k1:${randomBytes(16).toString("base64")}`, /entry 1 must carry 32 bytes/],
    ["a key of 33 bytes", `k1:${randomBytes(33).toString("base64")}`, /entry 1 must carry 32 bytes/],
    ["a key with a foreign character", `k1:${good.replace(/^./, "*")}`, /entry 1 must carry 32 bytes/],
    ["one id twice", `k1:${good},k1:${newKey()}`, /entry 2 has the id of an earlier entry/],
    ["an empty entry", `k1:${good},`, /entry 2 must have the form/],
  ];
  test.each(bad)("refuses %s, says what to change and repeats none of it", (_, setting, message) => {
    const error = thrown(() => parseKeys(setting));
    expect(error.message).toMatch(message);
    for (const piece of setting.split(/[:,\s]/)) {
      if (piece.length > 8) expect(inspect(error)).not.toContain(piece);
    }
  });

  test("lists every mistake at once", () => {
    expect(() => parseKeys(`k1,k2:short,k3:${good}`)).toThrow(/entry 1 .*; entry 2 /);
  });
});
