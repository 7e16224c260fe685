import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fingerprint } from "./fingerprint.ts";

const entries = (pairs: [string, string?][]) => pairs.map(([name, value]) => ({ name, value }));

describe("fingerprint", () => {
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
