import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createLog } from "../../../../kit/log.ts";
import { BackupRefusal } from "../../../terms/backup-refusal.ts";
import { createPostgresPrograms } from "./programs.ts";

const log = createLog("deployer", "silent");

/** A folder with programs that say that they are of these versions. */
async function folderWith(versions: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "berth-postgres-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const [name, version] of Object.entries(versions))
    await writeFile(join(folder, name), `#!/bin/sh\necho '${name} (PostgreSQL) ${version}'\n`, {
      mode: 0o755,
    });
  return folder;
}

const lookIn = (...folders: string[]) => createPostgresPrograms({ path: () => folders.join(":"), log });

test("the programs are those of the server's major version, wherever they are on the PATH", async () => {
  const older = await folderWith({ pg_dump: "89.1", pg_restore: "89.1" });
  const right = await folderWith({ pg_dump: "90.4 (Debian 90.4-1)", pg_restore: "90.4 (Debian 90.4-1)" });
  const newer = await folderWith({ pg_dump: "91beta1", pg_restore: "91beta1" });
  const programs = lookIn(older, newer, right);
  expect(await programs.unsupported(90)).toBeUndefined();
  expect(await programs.require(90)).toEqual({
    dump: join(right, "pg_dump"),
    restore: join(right, "pg_restore"),
  });
  expect(await programs.require(91)).toMatchObject({ dump: join(newer, "pg_dump") });
});

test("where there are none, a sentence says what to install", async () => {
  const half = await folderWith({ pg_dump: "90.4" });
  const programs = lookIn(half);
  const sentence =
    "This installation has no pg_dump and pg_restore of PostgreSQL 90. Install them (for instance the package postgresql-client-90).";
  expect(await programs.unsupported(90)).toBe(sentence);
  const missing = programs.require(90);
  await expect(missing).rejects.toThrow(sentence);
  await expect(missing).rejects.toThrow(BackupRefusal);
});
