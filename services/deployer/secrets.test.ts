import { expect, test } from "vitest";
import { createSecrets } from "./secrets.ts";

test("what earlier versions sealed opens, also when its key has become the second", () => {
  const stored = Buffer.from("TU7ON2Ae+QfhecwFa+bvgD7bBrgBxYQwQrJK98vGt37/AOY2ox7RHw==", "base64");
  const [old, fresh] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  expect(createSecrets([old]).open(stored, "ado_1 url")).toBe("the password");
  expect(createSecrets([fresh, old]).open(stored, "ado_1 url")).toBe("the password");
  expect(() => createSecrets([fresh]).open(stored, "ado_1 url")).toThrow("SECRET_KEYS");
  expect(() => createSecrets([old]).open(stored, "ado_2 url")).toThrow("SECRET_KEYS");
});
