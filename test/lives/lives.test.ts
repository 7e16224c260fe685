import { expect, inject, test } from "vitest";
import { sampleSize } from "../../services/kit/testing/sample.ts";
import { openCompany } from "./company.ts";
import { live } from "./life.ts";

/** A life takes seconds: `npm run chaos -- --only money` lives more of them. */
const LIVES = Number(process.env.BERTH_LIVES ?? sampleSize("lives of an account", 100, 3));
/**
 * `npm test` lives the same ones each time, since what only a rare life shows is found where many are lived. In the first,
 * members are added to a month at whose end the code ends.
 */
const FIRST = Number(process.env.BERTH_LIFE ?? (inject("isSample") ? 1_313_135_581 : inject("seed")));

/** Half of its time a life waits for PostgreSQL. */
const AT_ONCE = 4;

/** Years and days of the year differ, and are the same again for the same seed (ms). */
const beginOf = (seed: number) => Date.UTC(2026, 10, 25, 9, 30) + (seed % 7_300) * 86_400_000;

test(`${LIVES} lives of an account: what was charged is what the plan promises, and each preview is what happened`, {
  timeout: 100_000_000,
}, async () => {
  const unlike: string[] = [];
  let begun = 0;
  let lived = 0;
  async function liveSome(): Promise<void> {
    while (begun < LIVES) {
      const seed = FIRST + begun++;
      const company = await openCompany(beginOf(seed));
      await live(company, seed).catch((error: Error) => {
        unlike.push(error.message);
        if (process.env.BERTH_LIVES) console.log(error.message);
      });
      await company.close();
      if (process.env.BERTH_LIVES) console.log(`${++lived} of ${LIVES} lives, ${unlike.length} went wrong`);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, liveSome));
  expect(unlike.join("\n\n")).toBe("");
});
