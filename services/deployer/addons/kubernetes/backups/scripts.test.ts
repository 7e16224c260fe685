import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { programFailure } from "../../program-failure.ts";
import { restore } from "./scripts.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "berth-restore-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Runs the script of a restore with programs that only say that they ran. */
function run(script: string, help: string) {
  const own = script
    .replaceAll("/tmp/", `${folder}/`)
    // The programs of this machine would go first.
    .replaceAll("/usr/lib/postgresql", join(folder, "none"))
    .replaceAll("/dev/termination-log", join(folder, "report"))
    .replaceAll("/copy/data", "/dev/null");
  const program = (name: string, text: string) => {
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(folder, name), 0o755);
  };
  program("pg_restore", `[ "$1" = --help ] && { echo '${help}'; exit 0; }; echo 'select 1;'`);
  program("pg_isready", "exit 0");
  program("psql", `cat > ${folder}/script; grep -q restored ${folder}/script && echo restored`);
  const { status } = spawnSync("/bin/sh", ["-c", own], { env: { PATH: `${folder}:${process.env.PATH}` } });
  const report = join(folder, "report");
  return {
    status,
    report: existsSync(report) ? readFileSync(report, "utf8") : "",
    isRun: existsSync(join(folder, "script")),
  };
}

const RESTRICTED = "  --restrict-key=RESTRICT_KEY  use provided string as key";

test("an uploaded dump does not reach a psql that would run the commands in it", () => {
  const { status, report, isRun } = run(restore({ uploaded: true, foreign: true }), "  --no-owner");
  expect([status, isRun]).toEqual([1, false]);
  expect(programFailure(report, 1)).toMatchObject({
    name: "BackupRefusal",
    message: expect.stringContaining("too old to restore a dump that was uploaded"),
  });
});

test("an uploaded dump is restored where pg_restore has psql refuse commands, and others everywhere", () => {
  expect(run(restore({ uploaded: true, foreign: true }), RESTRICTED)).toMatchObject({
    status: 0,
    isRun: true,
  });
  expect(run(restore({ foreign: true }), "  --no-owner")).toMatchObject({ status: 0, isRun: true });
});
