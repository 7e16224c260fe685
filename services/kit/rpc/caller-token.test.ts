import { expect, test } from "vitest";
import { atLeast, type Caller, capped, createCallerVerifier, signCaller } from "./caller-token.ts";

const key = Buffer.alloc(32, 1);
const other = Buffer.alloc(32, 2);
const caller: Caller = { kind: "user", id: "usr_1", accountId: "acc_1", role: "editor", ip: "127.0.0.1" };

test("a signed caller is verified with the key that signed it, also while keys rotate, and however often", () => {
  const signed = signCaller([key], caller);
  for (const keys of [[key], [other, key]]) {
    const verify = createCallerVerifier(keys);
    for (let i = 0; i < 2; i++) expect(verify(signed)).toEqual(caller);
  }
});

test("a forged, altered, malformed or old caller is refused, however often", () => {
  const signed = signCaller([key], caller);
  const [, signature] = signed.split(".");
  const raised = Buffer.from(JSON.stringify({ ...caller, role: "owner", exp: 9e9 })).toString("base64url");
  const old = signCaller([key], caller, Date.now() - 62_000);
  expect(createCallerVerifier([other])(signed)).toBeUndefined();
  const verify = createCallerVerifier([key]);
  for (const junk of [`${raised}.${signature}`, old, "", ".", "a.b", "a", signed.slice(0, -2)])
    for (let i = 0; i < 2; i++) expect(verify(junk)).toBeUndefined();
});

test("roles are ordered, and a cap never lifts", () => {
  expect(atLeast("owner", "editor")).toBe(true);
  expect(atLeast("reader", "editor")).toBe(false);
  expect(atLeast(undefined, "reader")).toBe(false);
  expect(capped("reader", "owner")).toBe("reader");
  expect(capped("owner", "reader")).toBe("reader");
  expect(capped("owner", undefined)).toBe("owner");
});
