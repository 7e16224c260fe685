import { expect, test } from "vitest";
import { retry } from "./retry.ts";

test("work is tried until it succeeds, and each failure before is told with its number", async () => {
  const told: string[] = [];
  let runs = 0;
  const work = async () => {
    if (++runs < 4) throw new Error(`failure ${runs}`);
    return "done";
  };
  const failed = (error: unknown, failures: number) => void told.push(`${failures}: ${error}`);
  expect(await retry(work, { everyMs: 1, failed })).toBe("done");
  expect(told).toEqual(["1: Error: failure 1", "2: Error: failure 2", "3: Error: failure 3"]);
});

test("it ends with the failure when the time is over, or when the failure is of another kind", async () => {
  let runs = 0;
  const work = async () => Promise.reject(new Error(`failure ${++runs}`));
  await expect(retry(work, { everyMs: 1, forMs: 0 })).rejects.toThrow("failure 1");
  const retryIf = (error: unknown) => (error as Error).message !== "failure 3";
  await expect(retry(work, { everyMs: 1, retryIf })).rejects.toThrow("failure 3");
});

test("it ends at the signal, also in a pause", async () => {
  const stopping = new AbortController();
  const { promise, resolve } = Promise.withResolvers<void>();
  const work = async () => Promise.reject(new Error("away"));
  const trying = retry(work, { everyMs: 3_600_000, signal: stopping.signal, failed: () => resolve() });
  await promise;
  stopping.abort();
  await expect(trying).rejects.toThrow("abort");
});
