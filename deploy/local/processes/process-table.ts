import { execFile } from "node:child_process";
import { readdir, readFile, readlink } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

/** Returns the command line of a running process, its arguments separated by spaces; undefined when it does not run. */
export async function commandLine(pid: number): Promise<string | undefined> {
  if (!isAlive(pid)) return undefined;
  try {
    const raw = await readFile(`/proc/${pid}/cmdline`, "utf8");
    return raw === "" ? undefined : raw.split("\0").join(" ").trim(); // "" is a zombie
  } catch (error) {
    if (process.platform === "linux") {
      // ESRCH: it ended between the opening of the file and its reading.
      if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
      throw error;
    }
  }
  return new Promise((resolve) => {
    execFile("ps", ["-o", "args=", "-ww", "-p", String(pid)], (error, stdout) =>
      resolve(error ? undefined : stdout.trim() || undefined),
    );
  });
}

/** Returns whether a process with this pid exists, also one of another user. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Returns the pids of the processes whose command line `isOurs` accepts. */
export async function findProcesses(isOurs: (commandLine: string) => boolean): Promise<number[]> {
  if (process.platform !== "linux") return findProcessesByPs(isOurs);
  const pids = await allProcesses();
  const lines = await Promise.all(pids.map((pid) => commandLine(pid).catch(() => undefined)));
  return pids.filter((_, index) => isOurs(lines[index] ?? ""));
}

function findProcessesByPs(isOurs: (commandLine: string) => boolean): Promise<number[]> {
  return new Promise((resolve) => {
    execFile("ps", ["-axww", "-o", "pid=,args="], { maxBuffer: 64 * 1024 * 1024 }, (_error, stdout) => {
      const lines = stdout.split("\n").map((line) => line.trim().split(/ (.*)/s));
      resolve(lines.filter(([, args]) => isOurs(args ?? "")).map(([pid]) => Number(pid)));
    });
  });
}

async function allProcesses(): Promise<number[]> {
  const entries = await readdir("/proc").catch(() => []);
  return entries.map(Number).filter((pid) => Number.isInteger(pid) && pid > 1);
}

/**
 * Returns the pids of the processes whose working directory is `dir` (an absolute path without links) or below it;
 * none on systems without /proc.
 */
export async function findByWorkingDirectory(dir: string): Promise<number[]> {
  const pids = await allProcesses();
  const folders = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => "")));
  return pids.filter((_, index) => `${folders[index]}/`.startsWith(`${dir}/`));
}

/**
 * Ends a process that a killed launcher left, if `isOurs` accepts the command line of this pid: sends `signal`, and
 * SIGKILL after `graceMs`. Returns whether there was such a process.
 */
export async function endOrphan(
  pid: number,
  isOurs: (commandLine: string) => boolean,
  signal: NodeJS.Signals,
  graceMs: number,
): Promise<boolean> {
  const deadline = Date.now() + graceMs;
  let asked = false;
  for (;;) {
    const line = await commandLine(pid);
    if (line === undefined || !isOurs(line)) return asked;
    if (!asked) trySignal(pid, signal);
    else if (Date.now() > deadline) trySignal(pid, "SIGKILL");
    asked = true;
    await delay(20);
  }
}

function trySignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone meanwhile.
  }
}
