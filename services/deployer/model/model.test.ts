import { expect, inject, test } from "vitest";
import { describe, runModel } from "./run.ts";
import type { Fence } from "./statements/fences.ts";

const SCHEDULES = 2_000;
/** Of twenty thousand, the rarest is found in one on average; it stops at the first. */
const ENOUGH = 300_000;

test(`in ${SCHEDULES} random schedules all comes to rest, and no rule is broken`, {
  timeout: 900_000,
}, async () => {
  const summary = await runModel({ schedules: SCHEDULES, seed: inject("seed") });
  expect(summary.failure, describe(summary)).toBeUndefined();
  expect(summary.schedules).toBe(SCHEDULES);
});

const removed: [string, Fence[]][] = [
  ["an ended deployment can fail", ["fails what has ended"]],
  ["what was superseded can still be applied", ["applies what has ended", "applies any version"]],
  ["accepting supersedes nothing", ["supersedes nothing"]],
  ["the leases of killed processes stay", ["keeps the dead"]],
  ["a lease that a living process holds is taken", ["claims what is leased"]],
  ["other variables get the same revision", ["reuses revisions"]],
];

test.each(removed)("it is found out when %s", { timeout: 900_000 }, async (_, fences) => {
  const { failure } = await runModel({
    schedules: ENOUGH,
    seed: inject("seed"),
    removed: fences,
    shrinkMs: 0,
  });
  expect(failure).toBeDefined();
});
