import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { writeSafely } from "../data/secrets.ts";
import { type Command, lastLines, startChild } from "../processes/child.ts";
import { StartFailure } from "../terminal/failure.ts";
import { giveTo, type Identity } from "./os-user.ts";

export type Preparation = { dir: string; initdb: string; identity: Identity; log: string; durable: boolean };

/**
 * Make `<dir>/data` if there is none yet, and see that it is the identity's own; gives the superuser's password.
 *
 * @throws StartFailure `folderDamaged`, `cannotRun`.
 */
export async function prepareFolder(preparation: Preparation): Promise<string> {
  const { dir } = preparation;
  await removeUnfinished(dir);
  const data = join(dir, "data");
  const version = await readFile(join(data, "PG_VERSION"), "utf8").catch(() => undefined);
  const exists = (await readdir(dir)).includes("data");
  if (exists && version === undefined) throw damaged(dir, "data/PG_VERSION is missing");
  if (version !== undefined && version.trim() !== major) {
    throw damaged(dir, `it was made by PostgreSQL ${version.trim()}, this is ${major}`);
  }
  const password = await keptPassword(join(dir, "password"), exists);
  if (password === undefined) throw damaged(dir, "its file password is missing");
  if (exists) await giveTo(preparation.identity.owner, data);
  else await initialise(password, preparation);
  return password;
}

const major = "18";

async function keptPassword(file: string, mustExist: boolean): Promise<string | undefined> {
  const kept = (await readFile(file, "utf8").catch(() => "")).trim();
  if (kept !== "" || mustExist) return kept || undefined;
  const password = randomBytes(24).toString("base64url");
  await writeSafely(file, password);
  return password;
}

/** initdb in a folder beside, renamed when complete: an interrupted one is never mistaken for data. */
async function initialise(password: string, preparation: Preparation): Promise<void> {
  const { dir, initdb, identity, log, durable } = preparation;
  const place = await mkdtemp(join(dir, "init-"));
  const passwordFile = join(place, "password");
  await mkdir(join(place, "data"), { mode: 0o700 });
  await writeFile(passwordFile, password, { mode: 0o600 });
  await giveTo(identity.owner, place);
  const args = [
    `--pgdata=${join(place, "data")}`,
    "--username=postgres",
    `--pwfile=${passwordFile}`,
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    ...(durable ? [] : ["--no-sync"]),
  ];
  const child = await startChild(command(identity, initdb, args, place), log, "SIGTERM");
  const { code } = await child.exited;
  if (code !== 0) {
    throw new StartFailure("cannotRun", `PostgreSQL could not make its folder ${dir}: ${await because(log)}`);
  }
  await rename(join(place, "data"), join(dir, "data"));
  await rm(place, { recursive: true });
}

/** What initdb or a probe left behind when its launcher was killed. */
async function removeUnfinished(dir: string): Promise<void> {
  for (const name of await readdir(dir)) {
    if (/^(init|probe)-/.test(name)) await rm(join(dir, name), { recursive: true, force: true });
  }
}

/** A program of PostgreSQL under an identity, with nothing of this process's environment. */
export function command(identity: Identity, file: string, args: string[], cwd: string): Command {
  const { prefix, uid, gid } = identity;
  return { prefix, file, args, uid, gid, cwd, env: { PATH: process.env.PATH, TZ: "UTC", LC_ALL: "C" } };
}

export function damaged(dir: string, reason: string): StartFailure {
  return new StartFailure(
    "folderDamaged",
    `The database folder ${dir} cannot be used: ${reason}. Restore it, or start anew with --reset.`,
  );
}

/** The telling lines at the end of a log, as one line. */
export async function because(log: string): Promise<string> {
  const lines = await lastLines(log, 12);
  const telling = lines.filter((line) => /FATAL|PANIC|ERROR|error:|could not/.test(line));
  return (telling.length > 0 ? telling : lines).slice(-3).join(" / ");
}
