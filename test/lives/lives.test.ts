import { expect, inject, test } from "vitest";
import { sampleSize } from "../../services/kit/testing/sample.ts";
import { type Company, openCompany } from "./company.ts";
import { live } from "./life.ts";

/** A life takes seconds: `npm run chaos -- --only money` lives more of them. */
const LIVES = Number(process.env.BERTH_LIVES ?? sampleSize("lives of an account", 100, 3));
/**
 * `npm test` lives the same ones each time, since what only a rare life shows is found where many are lived. In the first,
 * members are added to a month at whose end the code ends.
 */
const FIRST = Number(process.env.BERTH_LIFE ?? (inject("isSample") ? 1_313_135_581 : inject("seed")));
/** The simulator keeps all that ever happened: a company is closed after so many lives. */
const LIVES_OF_A_COMPANY = 10;

test(`${LIVES} lives of an account: what was charged is what the plan promises, and each preview is what happened`, {
  timeout: 100_000_000,
}, async () => {
  let company: Company | undefined;
  const unlike: string[] = [];
  for (let n = 0; n < LIVES; n++) {
    company ??= await openCompany();
    await live(company, FIRST + n).catch((error: Error) => {
      unlike.push(error.message);
      if (process.env.BERTH_LIVES) console.log(error.message);
    });
    if (process.env.BERTH_LIVES) console.log(`${n + 1} of ${LIVES} lives, ${unlike.length} went wrong`);
    if (n % LIVES_OF_A_COMPANY !== LIVES_OF_A_COMPANY - 1) continue;
    await company.close();
    company = undefined;
  }
  await company?.close();
  expect(unlike.join("\n\n")).toBe("");
});
