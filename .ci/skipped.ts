/**
 * node skipped.ts REPORT: prints each test that vitest's JSON report says was skipped, with the reason that
 * `skips.json` has for it. Ends with 1 when one has none there.
 */
import { readFileSync } from "node:fs";
import { join, relative } from "node:path";

type Report = {
  testResults: { name: string; assertionResults: { fullName: string; status: string }[] }[];
};
type Skip = { file: string; test?: string; why: string };

const report: Report = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8"));
const listed: Skip[] = JSON.parse(readFileSync(join(import.meta.dirname, "skips.json"), "utf8"));
const skipped = report.testResults.flatMap(({ name, assertionResults }) =>
  assertionResults
    .filter(({ status }) => status !== "passed" && status !== "failed")
    .map(({ fullName }) => ({ file: relative(process.cwd(), name), fullName })),
);

const unlisted: string[] = [];
for (const { file, fullName } of skipped) {
  const entry = listed.find(
    (one) => one.file === file && (one.test === undefined || fullName.includes(one.test)),
  );
  if (entry) console.log(`skipped: ${file} > ${fullName}: ${entry.why}`);
  else unlisted.push(`skipped for no reason in .ci/skips.json: ${file} > ${fullName}`);
}
for (const line of unlisted) console.error(line);
if (unlisted.length > 0) process.exitCode = 1;
