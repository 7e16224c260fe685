import { expect, test } from "vitest";
import { atLeast, type Caller, callerVerifier, capped, signCaller, verifyCaller } from "./caller-token.ts";

const now = Date.now();
const key = Buffer.alloc(32, 1);
const other = Buffer.alloc(32, 2);
const caller: Caller = { kind: "user", id: "usr_1", accountId: "acc_1", role: "editor", ip: "127.0.0.1" };

test("a signed caller is known to whoever holds the key, also while keys rotate", () => {
  expect(verifyCaller([key], signCaller([key], caller, now), now)).toEqual(caller);
  expect(verifyCaller([other, key], signCaller([key], caller, now), now)).toEqual(caller);
});

test("a forged, altered or old caller is nobody", () => {
  const signed = signCaller([key], caller, now);
  const [, signature] = signed.split(".");
  const raised = Buffer.from(JSON.stringify({ ...caller, role: "owner", exp: 9e9 })).toString("base64url");
  expect(verifyCaller([other], signed, now)).toBeUndefined();
  expect(verifyCaller([key], `${raised}.${signature}`, now)).toBeUndefined();
  expect(verifyCaller([key], signed, now + 62_000)).toBeUndefined();
  for (const junk of ["", ".", "a.b", "a", signed.slice(0, -2)])
    expect(verifyCaller([key], junk, now)).toBeUndefined();
  const verify = callerVerifier([key]);
  const old = signCaller([key], caller, Date.now() - 62_000);
  for (const junk of [`${raised}.${signature}`, old, "a.b"])
    for (let i = 0; i < 2; i++) expect(verify(junk)).toBeUndefined();
  const fresh = signCaller([key], caller);
  for (let i = 0; i < 2; i++) expect(verify(fresh)).toEqual(caller);
});

test("roles are ordered, and a cap never lifts", () => {
  expect(atLeast("owner", "editor")).toBe(true);
  expect(atLeast("reader", "editor")).toBe(false);
  expect(atLeast(undefined, "reader")).toBe(false);
  expect(capped("reader", "owner")).toBe("reader");
  expect(capped("owner", "reader")).toBe("reader");
  expect(capped("owner", undefined)).toBe("owner");
});
