import { mkdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { UsageChange } from "../runtime/port.ts";

/** More changes than happen while the deployer's database is away. */
const KEPT = 100;

/** The journal with a change at its end, or the same one when nothing changed. Times grow. */
export function noteUsage(journal: UsageChange[], now: UsageChange): UsageChange[] {
  const last = journal.at(-1);
  if (last && last.replicas === now.replicas && (now.replicas === 0 || last.size === now.size))
    return journal;
  const at = Math.max(now.at, (last?.at ?? 0) + 1);
  return [...journal, { ...now, at }].slice(-KEPT);
}

const fileName = "alive";
const EVERY_MS = 1_000;

/**
 * Leaves a mark in `folder` every second: after a hard kill of everything it tells until when things ran.
 * `before` is the mark that was found, in ms.
 */
export function keepAlive(folder: string): { before: number | undefined; stop: () => void } {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, fileName);
  const before = changedAt(path);
  const mark = () => {
    const now = new Date();
    try {
      utimesSync(path, now, now);
    } catch {
      // The folder was removed, or the disk is in trouble: the last mark counts.
    }
  };
  writeFileSync(path, "", { mode: 0o600 });
  const timer = setInterval(mark, EVERY_MS).unref();
  return { before, stop: () => clearInterval(timer) };
}

/**
 * When something ended that nobody watched, as far as its traces tell (ms): the last time it was watched, or
 * the last time that it wrote into one of `outputs`.
 */
export function endedUnwatched(lastWatched: number | undefined, outputs: string[]): number {
  const traces = [lastWatched, ...outputs.map(changedAt)].filter((time) => time !== undefined);
  return traces.length === 0 ? Date.now() : Math.min(Date.now(), Math.max(...traces));
}

function changedAt(path: string): number | undefined {
  try {
    return Math.floor(statSync(path).mtimeMs);
  } catch {
    return undefined;
  }
}
