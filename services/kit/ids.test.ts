import { expect, test } from "vitest";
import { madeAt, newId } from "./ids.ts";

test("an id says when it was made", () => {
  for (const at of [0, 1_700_000_000_123, Date.now()]) expect(madeAt(newId("evt", at))).toBe(at);
});
