import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clipLine, keepNewest } from "./clip-log.ts";
import { maskSecrets } from "./mask-secrets.ts";

describe("masking", () => {
  test("replaces every value wherever it stands, the longest first, and each line of one with several", () => {
    const mask = maskSecrets(["abc", "abcdef", "a.*b", "-----BEGIN\nline two\n-----END", ""]);
    expect(mask("x abcdef y abc a.*b axxb")).toBe("x *** y *** *** axxb");
    expect(mask("-----BEGIN and line two")).toBe("*** and ***");
    expect(maskSecrets([])("nothing to hide")).toBe("nothing to hide");
  });

  test("replaces values that overlap together, so that no end of one is left", () => {
    expect(maskSecrets(["abcd", "cdef"])("x abcdef y")).toBe("x *** y");
    expect(maskSecrets(["b", "abcde"])("abcd abcde b")).toBe("a***cd *** ***");
    expect(maskSecrets(["abab"])("ababab abab")).toBe("*** ***");
    expect(maskSecrets(["abcd", "bc", "cx"])("abcx")).toBe("a***");
  });

  test("leaves no value in any text", () => {
    const secret = fc.string({ minLength: 1 }).filter((one) => one.trim() !== "" && !/[\r\n*]/.test(one));
    fc.assert(
      fc.property(fc.array(secret, { minLength: 1 }), fc.array(fc.string()), (secrets, texts) => {
        const masked = maskSecrets(secrets)(
          texts.flatMap((text, n) => [text, secrets[n % secrets.length]!]).join(" | "),
        );
        // A mask beside a rest may spell a value anew only with an asterisk in it, and none has one.
        return masked.split("***").every((part) => secrets.every((one) => !part.includes(one)));
      }),
    );
  });
});

describe("a line", () => {
  test("over 16 KiB is cut, between characters", () => {
    expect(clipLine("short")).toBe("short");
    const cut = clipLine("€".repeat(10_000));
    expect(Buffer.byteLength(cut)).toBeLessThan(16 * 1024 + 50);
    expect(cut).toMatch(/^€+ … \(line cut\)$/);
    expect(clipLine("x".repeat(16 * 1024))).toHaveLength(16 * 1024);
  });
});

describe("the newest output", () => {
  test("begins at the start of a line and fits", () => {
    expect(keepNewest("a\nb\n", 100)).toEqual({ logs: "a\nb\n", truncated: false });
    expect(keepNewest("first\nsecond\nthird\n", 13)).toEqual({ logs: "second\nthird\n", truncated: true });
    expect(keepNewest("first\nsecond\nthird\n", 12)).toEqual({ logs: "third\n", truncated: true });
    expect(keepNewest("one long line without an end", 10)).toEqual({ logs: "", truncated: true });
  });
});
