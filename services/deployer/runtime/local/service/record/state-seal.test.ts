import { expect, test } from "vitest";
import { createSealer } from "./state-seal.ts";

test("what earlier versions sealed opens under its secret, and under no other", () => {
  const stored = "ZSM/1MBxyDu/E36GmjfBUHoZ3RADQN8+6Oe0HekpKJ4RcpFQ+XmsMpP7OZTjju+JozSOclF5PVRVPQ==";
  expect(createSealer("runtime secret").open(stored)).toEqual({ PORT: "80", NAME: "grüße" });
  expect(createSealer("another secret").open(stored)).toBeUndefined();
  expect(createSealer("runtime secret").open(stored.slice(0, 20))).toBeUndefined();
});
