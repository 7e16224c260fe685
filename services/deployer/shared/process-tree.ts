import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { relative, sep } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** A process that cannot be mistaken for a later one with the same number. */
export type ProcessRef = {
  pid: number;
  /** Boot and start time, as the system reports them. */
  started: string;
};

type Process = ProcessRef & {
  group: number;
  session: number;
  /** Clock ticks in which it, and the children that it has waited for, used the CPU; and when it began, since boot. */
  cpuTicks: number;
  startTicks: number;
};

/** What the processes of a session use. Times in ms. */
export type SessionUse = { cpuMs: number; memory: number; startedAt: number };

/** Linux counts in hundredths of a second on all its architectures (USER_HZ). */
const TICK_MS = 10;

const ON_LINUX = process.platform === "linux";
let bootId: string | undefined;

/** Returns the start mark of a living process; undefined when it has ended (a zombie has). */
export function startedOf(pid: number): string | undefined {
  if (ON_LINUX) return readStat(pid)?.started;
  try {
    const [state = "Z", ...started] = execFileSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    })
      .trim()
      .split(/\s+/);
    return state.startsWith("Z") ? undefined : started.join(" ");
  } catch {
    return undefined;
  }
}

export function isAlive(ref: ProcessRef): boolean {
  return startedOf(ref.pid) === ref.started;
}

/**
 * Returns the living processes that were started for `folder`, each with its path in it: the variable HOME or
 * TMPDIR, or where its output goes. Also finds processes that left their group. Linux only; elsewhere none.
 */
export function findProcessesOf(folder: string): (ProcessRef & { path: string })[] {
  return listProcesses().flatMap((found) => {
    const paths = found.pid === process.pid ? [] : pathsOf(found);
    const path = paths.find((one) => isInside(one, folder));
    return path === undefined ? [] : [{ ...found, path }];
  });
}

/**
 * Returns what the sessions of these processes have used, by process id; none of a leader that has ended. One scan of all
 * processes. Linux only; elsewhere none.
 */
export function measureSessions(leaders: ProcessRef[]): Map<number, SessionUse> {
  if (!ON_LINUX || leaders.length === 0) return new Map();
  const sessions = Map.groupBy(listProcesses(), ({ session }) => session);
  const bootedAt = Date.now() - Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1_000;
  const measured = new Map<number, SessionUse>();
  for (const { pid, started } of leaders) {
    const members = sessions.get(pid) ?? [];
    const leader = members.find((one) => one.pid === pid);
    if (leader?.started !== started) continue;
    measured.set(pid, {
      cpuMs: members.reduce((sum, { cpuTicks }) => sum + cpuTicks, 0) * TICK_MS,
      memory: members.reduce((sum, one) => sum + residentBytes(one.pid), 0),
      startedAt: Math.round(bootedAt + leader.startTicks * TICK_MS),
    });
  }
  return measured;
}

function residentBytes(pid: number): number {
  try {
    return (
      Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1] ?? 0) * 1_024
    );
  } catch {
    return 0; // it has ended
  }
}

/**
 * Ends `leader`'s session and every process of `folder`: SIGTERM first, SIGKILL after the `deadline` (a time in ms,
 * read again each time because it may move closer). Resolves when none is left.
 */
export async function endProcesses(
  leader: ProcessRef | undefined,
  folder: string,
  deadline: () => number,
): Promise<void> {
  const signaled = new Set<number>();
  if (leader !== undefined && Date.now() < deadline() && isAlive(leader)) {
    signal(-leader.pid, "SIGTERM");
    signaled.add(leader.pid);
    while (isAlive(leader) && Date.now() < deadline()) await delay(15);
  }
  for (let pause = 15; ; pause = Math.min(100, pause * 2)) {
    const left = await membersOf(leader, folder);
    if (left.length === 0) return;
    for (const member of left) {
      if (Date.now() >= deadline()) signal(member.pid, "SIGKILL");
      else if (
        !signaled.has(member.pid) &&
        !(leader && signaled.has(leader.pid) && member.group === leader.pid)
      ) {
        signal(member.pid, "SIGTERM");
        signaled.add(member.pid);
      }
    }
    await delay(pause);
  }
}

/**
 * Ends the processes of `root` whose path is in none of these subfolders, with this grace: those that kept running after
 * their folder was deleted.
 */
export async function endProcessesOutside(
  root: string,
  subfolders: ReadonlySet<string>,
  graceMs: number,
): Promise<void> {
  const deadline = Date.now() + graceMs;
  const orphans = findProcessesOf(root).filter(
    ({ path }) => !subfolders.has(relative(root, path).split(sep)[0] ?? ""),
  );
  await Promise.all(orphans.map((orphan) => endProcesses(orphan, orphan.path, () => deadline)));
}

async function membersOf(leader: ProcessRef | undefined, folder: string): Promise<Process[]> {
  if (!ON_LINUX) {
    const group = leader !== undefined && signal(-leader.pid, 0);
    const { pid } = leader ?? { pid: 0 };
    return leader && group
      ? [{ ...leader, pid: -pid, group: pid, session: pid, cpuTicks: 0, startTicks: 0 }]
      : [];
  }
  const all = await scanSoon();
  const holder = leader && all.find((one) => one.pid === leader.pid);
  // An ended leader's number is not reused while its session lives: another holder means that none is left.
  const ours = leader !== undefined && (holder === undefined || holder.started === leader.started);
  return all.filter(
    (one) =>
      one.pid !== process.pid &&
      ((ours && (one.session === leader.pid || one.group === leader.pid)) ||
        one.paths.some((path) => isInside(path, folder))),
  );
}

type ScannedProcess = Process & { paths: string[] };

/**
 * A scan of all processes costs milliseconds: short bursts are free, and sustained scanning takes at most this
 * share of the time.
 */
const SCAN_SHARE = 0.2;
const BURST_MS = 100;
let spentMs = 0;
let spentUntil = 0;
let pendingScan: Promise<ScannedProcess[]> | undefined;

/** Returns all processes, with their paths, as of a moment after this call: callers that wait share one scan. */
function scanSoon(): Promise<ScannedProcess[]> {
  const left = spentMs - (performance.now() - spentUntil) * SCAN_SHARE;
  pendingScan ??= delay(Math.max(0, left - BURST_MS) / SCAN_SHARE).then(() => {
    pendingScan = undefined;
    const [now, before] = [performance.now(), cpuMs()];
    const all = listProcesses().map((one) => ({ ...one, paths: pathsOf(one) }));
    spentMs = Math.max(0, spentMs - (now - spentUntil) * SCAN_SHARE) + cpuMs() - before;
    spentUntil = now;
    return all;
  });
  return pendingScan;
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

/** Returns the paths that show for which folder a process was started. */
function pathsOf({ pid, group }: Process): string[] {
  if (group === 0) return []; // of the kernel
  try {
    const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
    const paths = variables
      .filter((one) => /^(HOME|TMPDIR)=/.test(one))
      .map((one) => one.replace(/^[A-Z]+=/, ""));
    for (const number of [1, 2]) paths.push(readlinkSync(`/proc/${pid}/fd/${number}`));
    return paths;
  } catch {
    return []; // it has ended, or belongs to another user
  }
}

function listProcesses(): Process[] {
  if (!ON_LINUX) return [];
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readStat(Number(name)))
    .filter((found) => found !== undefined);
}

function readStat(pid: number): Process | undefined {
  try {
    bootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name in parentheses may hold anything; after it come state, ppid, pgrp, session, … utime, stime, cutime, cstime
    // (14th to 17th), … starttime (22nd).
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z" || fields[0] === "X") return undefined;
    const cpuTicks = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0);
    return {
      ...{ pid, group: Number(fields[2]), session: Number(fields[3]), started: `${bootId}:${fields[19]}` },
      ...{ cpuTicks, startTicks: Number(fields[19]) },
    };
  } catch {
    return undefined;
  }
}

function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false; // it has ended
  }
}
