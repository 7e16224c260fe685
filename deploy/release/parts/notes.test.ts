import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { notesOf } from "./notes.ts";

const changelog =
  "# Changelog\n\n## [Unreleased]\n\nNext.\n\n## [0.2.0] - 2026-11-28\n\n### Added\n\n- This.\n\n## [0.1.0]\n\nOld.\n";

test("the notes are the version's section of the changelog, or else what is not released yet", () => {
  expect(notesOf(changelog, "0.2.0")).toBe("# Berth 0.2.0\n\n### Added\n\n- This.\n");
  expect(notesOf(changelog, "0.3.0")).toBe("# Berth 0.3.0\n\nNext.\n");
  expect(() => notesOf("# Changelog\n", "0.3.0")).toThrow("CHANGELOG.md says nothing about 0.3.0.");
});

test("this repository's changelog has notes for this version", () => {
  const read = (file: string) => readFileSync(join(import.meta.dirname, "../../..", file), "utf8");
  const { version } = JSON.parse(read("package.json")) as { version: string };
  expect(notesOf(read("CHANGELOG.md"), version).length).toBeGreaterThan(1_000);
});
