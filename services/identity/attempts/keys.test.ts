import { expect, test } from "vitest";
import { attemptKey } from "./keys.ts";

test("two addresses of one IPv6 network share their failures, two e-mails do not", () => {
  const key = attemptKey("ada@example.com", "2001:db8:1:2::1");
  expect(attemptKey("ada@example.com", "2001:db8:1:2:ffff::")).toEqual(key);
  expect(attemptKey("ada@example.com", "2001:db8:1:3::1")).not.toEqual(key);
  expect(attemptKey("bob@example.com", "2001:db8:1:2::1")).not.toEqual(key);
});
