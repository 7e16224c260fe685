import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { readOrCreatePassword, readPassword } from "../data/secrets.ts";
import { StartFailure } from "../failure.ts";
import { type Command, lastLines, startChild } from "../processes/child.ts";
import { changeOwner, type OsUser } from "./os-user.ts";

export type Preparation = { dir: string; initdb: string; osUser: OsUser; log: string; durable: boolean };

/**
 * Makes `<dir>/data` if there is none yet, owned by the OS user, and returns the superuser's password.
 *
 * @throws StartFailure `folderDamaged`, `cannotRun`.
 */
export async function prepareDataDirectory(preparation: Preparation): Promise<string> {
  const { dir } = preparation;
  await removeUnfinished(dir);
  const data = join(dir, "data");
  const version = await readFile(join(data, "PG_VERSION"), "utf8").catch(() => undefined);
  const exists = (await readdir(dir)).includes("data");
  if (exists && version === undefined) throw damagedFolder(dir, "data/PG_VERSION is missing");
  if (version !== undefined && version.trim() !== MAJOR) {
    throw damagedFolder(
      dir,
      `it was created by PostgreSQL ${version.trim()}, but this is PostgreSQL ${MAJOR}`,
    );
  }
  const file = join(dir, "password");
  const password = exists ? await readPassword(file) : await readOrCreatePassword(file);
  if (password === undefined) throw damagedFolder(dir, "its password file is missing");
  if (exists) await changeOwner(preparation.osUser.owner, data);
  else await initialise(password, preparation);
  return password;
}

const MAJOR = "18";

/** Runs initdb in a temporary folder and renames it when complete: an interrupted run is never mistaken for data. */
async function initialise(password: string, preparation: Preparation): Promise<void> {
  const { dir, initdb, osUser, log, durable } = preparation;
  const temporary = await mkdtemp(join(dir, "init-"));
  const passwordFile = join(temporary, "password");
  await mkdir(join(temporary, "data"), { mode: 0o700 });
  await writeFile(passwordFile, password, { mode: 0o600 });
  await changeOwner(osUser.owner, temporary);
  const args = [
    `--pgdata=${join(temporary, "data")}`,
    "--username=postgres",
    `--pwfile=${passwordFile}`,
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    ...(durable ? [] : ["--no-sync"]),
  ];
  const child = await startChild(command(osUser, initdb, args, temporary), log, "SIGTERM");
  const { code } = await child.exited;
  if (code !== 0) {
    throw new StartFailure(
      "cannotRun",
      `PostgreSQL could not initialize the folder ${dir}: ${await failureReason(log)}`,
    );
  }
  await rename(join(temporary, "data"), join(dir, "data"));
  await rm(temporary, { recursive: true });
}

/** Removes what initdb or a probe left when its launcher was killed. */
async function removeUnfinished(dir: string): Promise<void> {
  for (const name of await readdir(dir)) {
    if (/^(init|probe)-/.test(name)) await rm(join(dir, name), { recursive: true, force: true });
  }
}

/** Returns the command of a PostgreSQL program under an OS user, without this process's environment. */
export function command(osUser: OsUser, file: string, args: string[], cwd: string): Command {
  const { prefix, uid, gid } = osUser;
  return { prefix, file, args, uid, gid, cwd, env: { PATH: process.env.PATH, TZ: "UTC", LC_ALL: "C" } };
}

export function damagedFolder(dir: string, reason: string): StartFailure {
  return new StartFailure(
    "folderDamaged",
    `The database folder ${dir} cannot be used: ${reason}. Restore it, or start over with --reset, which deletes all data.`,
  );
}

/** Returns the lines at the end of a log that name an error, as one line. */
export async function failureReason(log: string): Promise<string> {
  const lines = await lastLines(log, 12);
  const errors = lines.filter((line) => /FATAL|PANIC|ERROR|error:|could not/.test(line));
  return (errors.length > 0 ? errors : lines).slice(-3).join(" / ");
}
