import { expect, test } from "vitest";
import { returnPath } from "./return-path.ts";

test("only a path of the same origin is returned to", () => {
  expect(returnPath("/oauth/consent?consent_challenge=a%2Bb", "/profile")).toBe(
    "/oauth/consent?consent_challenge=a%2Bb",
  );
  expect(returnPath("/profile/sessions#x", "/profile")).toBe("/profile/sessions");
  for (const elsewhere of [
    null,
    "",
    "profile",
    "https://evil.example/",
    "//evil.example",
    "/\\evil.example",
    "/\t/evil.example",
    "/.//evil.example",
    "/a/..//evil.example",
    "javascript:alert(1)",
    `/${"x".repeat(10_001)}`,
  ])
    expect([elsewhere, returnPath(elsewhere, "/profile")]).toEqual([elsewhere, "/profile"]);
  expect(returnPath("/a\r\nset-cookie: b", "/profile")).not.toMatch(/[\r\n]/);
});
