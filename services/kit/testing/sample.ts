import { appendFileSync } from "node:fs";
import { inject } from "vitest";
import { createRandom } from "./random.ts";

/**
 * Returns how many of something this run tests: `some` in `npm test`, which says so at its end, else `all`. For what is
 * long by nature, such as a kill at every move.
 */
export function sampleSize(what: string, all: number, some: number): number {
  if (!inject("isSample") || some >= all) return all;
  appendFileSync(inject("samples"), `${what}: ${some} of ${all}\n`);
  return some;
}

/** Returns the cases that this run tests, as `sampleSize` says; which ones, its seed decides. */
export function sample<T>(what: string, cases: readonly T[], some: number): T[] {
  const { next } = createRandom(inject("seed") + cases.length);
  return cases
    .map((one, index) => ({ one, index, rank: next() }))
    .toSorted((a, b) => a.rank - b.rank)
    .slice(0, sampleSize(what, cases.length, some))
    .toSorted((a, b) => a.index - b.index)
    .map(({ one }) => one);
}
