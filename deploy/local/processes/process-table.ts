import { execFile } from "node:child_process";
import { readdir, readFile, readlink } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

/** The command line of a living process, its parts separated by spaces; undefined when there is none. */
export async function commandLine(pid: number): Promise<string | undefined> {
  if (!isAlive(pid)) return undefined;
  try {
    const raw = await readFile(`/proc/${pid}/cmdline`, "utf8");
    return raw === "" ? undefined : raw.split("\0").join(" ").trim(); // "" is a zombie
  } catch (error) {
    if (process.platform === "linux") {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }
  return new Promise((resolve) => {
    execFile("ps", ["-o", "args=", "-ww", "-p", String(pid)], (error, stdout) =>
      resolve(error ? undefined : stdout.trim() || undefined),
    );
  });
}

/** Whether a process with this id exists (also one that belongs to somebody else). */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** The processes that `isOurs` recognises by their command lines. */
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
 * The processes whose working directory is `dir` or inside it (an absolute path without links). Only where there
 * is a /proc: elsewhere none.
 */
export async function workingUnder(dir: string): Promise<number[]> {
  const pids = await allProcesses();
  const folders = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => "")));
  return pids.filter((_, index) => `${folders[index]}/`.startsWith(`${dir}/`));
}

/**
 * End a process left behind by a killed launcher, if the one with this id still is what `isOurs` recognises in
 * its command line: ask with `signal`, insist with SIGKILL after `graceMs`.
 *
 * @returns whether there was such a process.
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
    if (!asked) signalQuietly(pid, signal);
    else if (Date.now() > deadline) signalQuietly(pid, "SIGKILL");
    asked = true;
    await delay(20);
  }
}

function signalQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone between the look and the signal.
  }
}
