import { expect, test } from "vitest";
import { saysOutdatedLock } from "./build-failure.ts";

test.each([
  [
    "npm",
    "npm error `npm ci` can only install packages when your package.json and package-lock.json are in sync.",
  ],
  [
    "pnpm",
    ' ERR_PNPM_OUTDATED_LOCKFILE  Cannot install with "frozen-lockfile" because pnpm-lock.yaml is old',
  ],
  ["Yarn 1", "error Your lockfile needs to be updated, but yarn was run with `--frozen-lockfile`."],
  [
    "Yarn 4",
    "➤ YN0028: │ The lockfile would have been modified by this install, which is explicitly forbidden.",
  ],
  ["Bun", "error: lockfile had changes, but lockfile is frozen"],
  ["Pipenv", "Your Pipfile.lock "],
])("what %s prints about a lock file that is out of date is understood", (_manager, line) => {
  expect(saysOutdatedLock(line)).toBe(true);
});

test("a missing lock file is no outdated one", () => {
  const line =
    "npm error The `npm ci` command can only install with an existing package-lock.json or npm-shrinkwrap.json";
  expect(saysOutdatedLock(line)).toBe(false);
});
