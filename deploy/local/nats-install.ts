import { execFile } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, readdir, rename, rm, stat } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { StartFailure } from "./failure.ts";

const execute = promisify(execFile);

/** The version that Go builds where no nats-server is found. */
const wanted = "v2.14.5";

/** The oldest version that has all this platform uses. */
const oldest = [2, 9] as const;

/**
 * The path of a nats-server: the one on PATH, else the one put into `cacheDir` before, else one put there now
 * (built by Go, or taken out of the system's package; neither needs root). Two processes may do this at once.
 *
 * @param progress told, in one line, what takes time.
 * @param signal gives up what is under way.
 * @throws StartFailure `natsMissing` with what to do about it.
 */
export async function findNatsServer(
  cacheDir: string,
  progress: (line: string) => void,
  signal?: AbortSignal,
): Promise<string> {
  const cached = join(cacheDir, "nats-server");
  for (const folder of (process.env.PATH ?? "").split(delimiter).filter(Boolean)) {
    const candidate = join(folder, "nats-server");
    if (await isUsable(candidate)) return candidate;
  }
  if (await isUsable(cached)) return cached;
  await mkdir(cacheDir, { recursive: true });
  await removeOldWork(cacheDir);
  const run: Run = (file, args, options = {}) => execute(file, args, { ...options, signal });
  const refusals: string[] = [];
  for (const [name, obtain] of Object.entries(sources)) {
    const work = await mkdtemp(join(cacheDir, "nats-"));
    try {
      const binary = await obtain(work, progress, run);
      await chmod(binary, 0o755);
      if (!(await isUsable(binary))) throw new Error("what it gave does not run here");
      await rename(binary, cached);
      return cached;
    } catch (error) {
      refusals.push(`${name}: ${firstLine(error)}`);
    } finally {
      // Go makes its files read-only in some settings; what cannot be removed does no harm.
      await rm(work, { recursive: true, force: true }).catch(() => {});
    }
  }
  throw new StartFailure(
    "natsMissing",
    `No nats-server was found on the PATH, and none could be fetched (${refusals.join("; ")}). Install ` +
      `nats-server ${oldest.join(".")} or newer so that it is on the PATH, or put the program at ${cached}.`,
  );
}

type Run = (
  file: string,
  args: string[],
  options?: { cwd?: string; env?: NodeJS.ProcessEnv; timeout?: number },
) => Promise<unknown>;

const sources = { go: buildWithGo, "apt-get": unpackSystemPackage };

async function isUsable(binary: string): Promise<boolean> {
  try {
    const { stdout } = await execute(binary, ["--version"], { timeout: 10_000 });
    const [, major, minor] = stdout.match(/v(\d+)\.(\d+)\./)?.map(Number) ?? [];
    if (major === undefined || minor === undefined) return false;
    return major > oldest[0] || (major === oldest[0] && minor >= oldest[1]);
  } catch {
    return false;
  }
}

async function buildWithGo(work: string, progress: (line: string) => void, run: Run): Promise<string> {
  await run("go", ["version"], { timeout: 30_000 });
  progress(`building nats-server ${wanted} with Go, once (half a minute or two)`);
  const source = `github.com/nats-io/nats-server/v2@${wanted}`;
  const env = { ...process.env, GOBIN: work, CGO_ENABLED: "0", GOFLAGS: "-ldflags=-s -ldflags=-w" };
  await run("go", ["install", source], { cwd: work, env, timeout: 10 * 60_000 });
  return join(work, "nats-server");
}

async function unpackSystemPackage(
  work: string,
  progress: (line: string) => void,
  run: Run,
): Promise<string> {
  await run("apt-get", ["--version"], { timeout: 30_000 });
  progress("taking nats-server out of the system's package, once");
  const download = (options: string[]) =>
    run("apt-get", [...options, "download", "nats-server"], { cwd: work, timeout: 5 * 60_000 });
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
  const archive = (await readdir(work)).find((name) => name.endsWith(".deb"));
  if (archive === undefined) throw new Error("nothing was downloaded");
  await run("dpkg-deb", ["-x", join(work, archive), join(work, "root")]);
  const unpacked = (await readdir(join(work, "root"), { recursive: true })).find((name) =>
    /^usr\/s?bin\/nats-server$/.test(name),
  );
  if (unpacked === undefined) throw new Error("the package has no nats-server");
  const binary = join(work, "nats-server");
  await copyFile(join(work, "root", unpacked), binary);
  return binary;
}

/** Folders of runs that were killed; an hour is more than any run may take. */
async function removeOldWork(cacheDir: string): Promise<void> {
  for (const name of await readdir(cacheDir)) {
    const path = join(cacheDir, name);
    if (!name.startsWith("nats-") || name === "nats-server") continue;
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
