import { expect, test } from "vitest";
import { every } from "./every.ts";
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

test("periodic work goes on after a failure, never twice at once, and `stop` waits for the run under way", async () => {
  const errors: unknown[] = [];
  const last = Promise.withResolvers<void>();
  const inLast = Promise.withResolvers<void>();
  let [runs, running] = [0, 0];
  const work = async () => {
    expect(++running).toBe(1);
    runs++;
    if (runs === 3) inLast.resolve();
    if (runs === 3) await last.promise;
    running--;
    if (runs === 1) throw new Error("first");
  };
  const periodic = every(1, work, { atOnce: true, failed: (error) => errors.push(error) });
  await inLast.promise;
  let stopped = false;
  const stopping = periodic.stop().then(() => {
    stopped = true;
  });
  await Promise.resolve();
  expect(stopped).toBe(false);
  last.resolve();
  await stopping;
  expect(runs).toBe(3);
  expect(errors).toEqual([new Error("first")]);
});
