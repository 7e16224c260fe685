import { expect, test } from "vitest";
import { createPoolerPauses } from "./pooler-pauses.ts";

test("a pooler is looked at often while it starts, and every five minutes once it does not for long", () => {
  let ms = 1_000;
  const pauses = createPoolerPauses(() => ms);
  expect(pauses.msOf("svc_1")).toBe(0);
  /** Returns how often it is looked at within so many minutes. */
  const looksIn = (minutes: number) => {
    let looks = 0;
    for (const end = ms + minutes * 60_000; ms < end; looks++) {
      pauses.waits("svc_1");
      ms += pauses.msOf("svc_1");
    }
    return looks;
  };
  expect(looksIn(1)).toBeGreaterThanOrEqual(11);
  expect(looksIn(60)).toBeLessThan(60);
  expect(looksIn(600)).toBeLessThanOrEqual(120);
  expect(pauses.msOf("svc_2")).toBe(0);
  pauses.waits("svc_1");
  pauses.ends("svc_1");
  expect(pauses.msOf("svc_1")).toBe(0);
  pauses.waits("svc_1");
  expect(pauses.msOf("svc_1")).toBe(5_000);
});
