import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/** A process that cannot be mistaken for a later one with the same number. */
export type ProcessRef = {
  pid: number;
  /** Boot and start time, as the system tells them. */
  started: string;
};

interface Process extends ProcessRef {
  group: number;
  session: number;
}

const onLinux = process.platform === "linux";
let bootId: string | undefined;

/** The start mark of a living process, undefined when it has ended (a zombie has). */
export function startedOf(pid: number): string | undefined {
  if (onLinux) return readStat(pid)?.started;
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
 * Living processes that were started for `folder`, with the place in it that shows it: the variable HOME or
 * TMPDIR, or where their output goes. Finds those that left their group too. Linux only; elsewhere none.
 */
export function findMarked(folder: string): (ProcessRef & { place: string })[] {
  return listProcesses().flatMap((found) => {
    const places = found.pid === process.pid ? [] : placesOf(found);
    const place = places.find((one) => isInside(one, folder));
    return place === undefined ? [] : [{ ...found, place }];
  });
}

/**
 * Ends `leader`'s session and everything marked with `folder`: SIGTERM, and SIGKILL for what is left past
 * the `deadline` (a time in ms, which may come nearer meanwhile). Resolves when nothing is left.
 */
export async function endProcesses(
  leader: ProcessRef | undefined,
  folder: string,
  deadline: () => number,
): Promise<void> {
  const told = new Set<number>();
  if (leader !== undefined && Date.now() < deadline() && isAlive(leader)) {
    signal(-leader.pid, "SIGTERM");
    told.add(leader.pid);
    while (isAlive(leader) && Date.now() < deadline()) await delay(15);
  }
  for (let pause = 15; ; pause = Math.min(100, pause * 2)) {
    const left = await membersOf(leader, folder);
    if (left.length === 0) return;
    for (const member of left) {
      if (Date.now() >= deadline()) signal(member.pid, "SIGKILL");
      else if (!told.has(member.pid) && !(leader && told.has(leader.pid) && member.group === leader.pid)) {
        signal(member.pid, "SIGTERM");
        told.add(member.pid);
      }
    }
    await delay(pause);
  }
}

async function membersOf(leader: ProcessRef | undefined, folder: string): Promise<Process[]> {
  if (!onLinux) {
    const group = leader !== undefined && signal(-leader.pid, 0);
    return group ? [{ ...leader, pid: -leader.pid, group: leader.pid, session: leader.pid }] : [];
  }
  const all = await lookSoon();
  const holder = leader && all.find((one) => one.pid === leader.pid);
  // The number of an ended leader stays taken while its session lives: another holder means none is left.
  const ours = leader !== undefined && (holder === undefined || holder.started === leader.started);
  return all.filter(
    (one) =>
      one.pid !== process.pid &&
      ((ours && (one.session === leader.pid || one.group === leader.pid)) ||
        one.places.some((place) => isInside(place, folder))),
  );
}

type Placed = Process & { places: string[] };

/**
 * A look at all processes costs milliseconds: a few are made at once, and when many are asked for, at most
 * this part of the time goes into them.
 */
const LOOKING_SHARE = 0.2;
const AT_ONCE_MS = 100;
let spentMs = 0;
let spentUntil = 0;
let coming: Promise<Placed[]> | undefined;

/** All processes after this call, with their places: one look serves all who ask before it. */
function lookSoon(): Promise<Placed[]> {
  const left = spentMs - (performance.now() - spentUntil) * LOOKING_SHARE;
  coming ??= delay(Math.max(0, left - AT_ONCE_MS) / LOOKING_SHARE).then(() => {
    coming = undefined;
    const [now, before] = [performance.now(), cpuMs()];
    const all = listProcesses().map((one) => ({ ...one, places: placesOf(one) }));
    spentMs = Math.max(0, spentMs - (now - spentUntil) * LOOKING_SHARE) + cpuMs() - before;
    spentUntil = now;
    return all;
  });
  return coming;
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

/** What tells for whom a process was started. */
function placesOf({ pid, group }: Process): string[] {
  if (group === 0) return []; // of the kernel
  try {
    const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
    const places = variables
      .filter((one) => /^(HOME|TMPDIR)=/.test(one))
      .map((one) => one.replace(/^[A-Z]+=/, ""));
    for (const number of [1, 2]) places.push(readlinkSync(`/proc/${pid}/fd/${number}`));
    return places;
  } catch {
    return []; // ended meanwhile, or another user's
  }
}

function listProcesses(): Process[] {
  if (!onLinux) return [];
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readStat(Number(name)))
    .filter((found) => found !== undefined);
}

function readStat(pid: number): Process | undefined {
  try {
    bootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name in parentheses may hold anything; after it come state, ppid, pgrp, session, … starttime (22nd).
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z" || fields[0] === "X") return undefined;
    return { pid, group: Number(fields[2]), session: Number(fields[3]), started: `${bootId}:${fields[19]}` };
  } catch {
    return undefined;
  }
}

function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false; // ended meanwhile
  }
}
