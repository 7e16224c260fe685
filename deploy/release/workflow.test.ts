import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findGoProgram } from "../../test/support/servers/go-program.ts";

const actionlint = await findGoProgram("actionlint", "the workflow of releases is checked by actionlint");
const workflow = join(import.meta.dirname, "../../.github/workflows/release.yml");

function lint(input: string): string {
  try {
    return execFileSync(actionlint!, ["-no-color", "-oneline", "-shellcheck=", "-pyflakes=", "-"], {
      input,
      encoding: "utf8",
    });
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

test.skipIf(actionlint === undefined)("the workflow of releases is one that a hosted CI takes", () => {
  const text = readFileSync(workflow, "utf8");
  expect(lint(text)).toBe("");
  expect(lint(text.replace("needs: release", "needs: nothing"))).toContain("nothing");
});
