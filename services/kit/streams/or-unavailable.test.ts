import { expect, test } from "vitest";
import { refused } from "../testing/refusal.ts";
import { orUnavailable } from "./or-unavailable.ts";

const never = new Promise<void>(() => {});

test("who left before waiting, or while waiting, does not wait for what is never read", async () => {
  expect(await refused(orUnavailable(never, AbortSignal.abort()))).toBe("503 unavailable");
  const leaving = new AbortController();
  const waiting = refused(orUnavailable(never, leaving.signal));
  leaving.abort();
  expect(await waiting).toBe("503 unavailable");
});
