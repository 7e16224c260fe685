import { mkdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startLoop } from "../../kit/tasks/loop.ts";

const FILE = "alive";
const EVERY_MS = 1_000;

/**
 * Touches a file in `folder` every second, so that after a hard kill of everything the next process knows until when
 * things ran. `before` is the time of the mark that it found, in ms.
 */
export function startAliveMark(folder: string): { before: number | undefined; stop: () => void } {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, FILE);
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
  const marks = startLoop(async () => {
    mark();
    return EVERY_MS;
  }, EVERY_MS);
  return { before, stop: () => void marks.stop() };
}

/**
 * Returns when something that nobody watched ended, as far as its traces show (ms): the last time it was watched, or
 * the last time it wrote to one of `outputs`.
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
