import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fingerprint, type ResolvedEntry, resolvedSize } from "./resolve.ts";

describe("size and fingerprint", () => {
  const entries = (pairs: [string, string?][]) =>
    pairs.map(([name, value]) => ({ name, value })) as Pick<ResolvedEntry, "name" | "value">[];

  test("the size counts the UTF-8 bytes of names and values", () => {
    expect(resolvedSize(entries([["A", "é€😀"], ["BC", ""], ["D"]]))).toBe(1 + 9 + 2 + 1);
    expect(resolvedSize([])).toBe(0);
  });

  test("the fingerprint is the same exactly for the same names and values, whatever they came from", () => {
    const set = fc.dictionary(fc.stringMatching(/^[AB]{1,2}$/), fc.stringMatching(/^[AB,"]{0,2}$/), {
      maxKeys: 3,
    });
    fc.assert(
      fc.property(set, set, (one, other) => {
        const first = fingerprint(entries(Object.entries(one)), "k");
        const second = fingerprint(entries(Object.entries(other).reverse()), "k");
        const same =
          JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort());
        expect(first === second).toBe(same);
      }),
      { numRuns: 1000 },
    );
  });

  test("the fingerprint is 64 hex digits and another one under another key", () => {
    const data = entries([["A", "1"]]);
    expect(fingerprint(data, "k")).toMatch(/^[0-9a-f]{64}$/);
    expect(fingerprint(data, "k")).not.toBe(fingerprint(data, Buffer.from("other")));
  });

  test("a set read by names only has no fingerprint", () => {
    expect(() => fingerprint(entries([["SECRET_NAME"]]), "k")).toThrow(TypeError);
  });
});
