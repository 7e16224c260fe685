import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

test("each file that skips tests on some machines has a reason that `.ci/run` prints", () => {
  const listed = new Set((JSON.parse(read(".ci/skips.json")) as { file: string }[]).map(({ file }) => file));
  const tests = execFileSync("git", ["ls-files", "*.test.ts"], { cwd: ROOT, encoding: "utf8" })
    .split("\n")
    .filter(Boolean);
  expect([...listed].filter((file) => !tests.includes(file))).toEqual([]);
  const skipping = tests.filter((file) => /\.(skipIf|runIf)\(/.test(read(file)));
  expect(skipping.filter((file) => !listed.has(file))).toEqual([]);
});
