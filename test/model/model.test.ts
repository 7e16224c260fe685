import { readFileSync } from "node:fs";
import { expect, inject, test } from "vitest";
import { sample, sampleSize } from "../../services/kit/testing/sample.ts";
import { describeFinding, findFaults, isAsExpected } from "./faults/find.ts";
import { FAULTS } from "./faults/list.ts";
import { applyEdit, urlOf } from "./faults/seed.ts";
import { describe, runModel } from "./run.ts";

const SCHEDULES = sampleSize("random schedules of the deployer's model", 2_000, 500);
/** Many times what the rarest of the faults needs; a run stops at the first schedule that breaks a rule. */
const ENOUGH = 300_000;

test(`in ${SCHEDULES} random schedules all comes to rest, and no rule is broken`, {
  timeout: 900_000,
}, async () => {
  const summary = await runModel({ schedules: SCHEDULES, seed: inject("seed") });
  expect(summary.failure, describe(summary)).toBeUndefined();
  expect(summary.schedules).toBe(SCHEDULES);
});

test("the seeded faults fit the deployer's code", () => {
  for (const { edits = [] } of FAULTS)
    for (const edit of edits) applyEdit(readFileSync(urlOf(edit.file), "utf8"), edit);
});

const harmful = FAULTS.filter(({ harmless }) => harmless === undefined);
/** `npm test` leaves out what takes a minute to be found. */
const soon = harmful.filter(({ rare }) => !rare || !inject("isSample"));

test.each(sample("seeded faults of the deployer's model that are found soon", soon, 2))(
  "it is found out when $name",
  { timeout: 900_000 },
  async (fault) => {
    const [finding] = await findFaults([fault], { schedules: ENOUGH, seed: inject("seed") });
    expect(isAsExpected(finding!), describeFinding(finding!)).toBe(true);
  },
);
