import { randomUUID } from "node:crypto";
import { link, open, readFile, rename, rm, stat } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { refused } from "../failure.ts";

/** Longer than anything is done under the lock: one request with its timeout. */
const STALE_MS = 60_000;
/** Longer than a process takes from making its lock to writing its pid. */
const STALE_EMPTY_MS = 2_000;
const WAIT_MS = 75_000;

/**
 * Runs `work` while no other process holds the lock. A lock whose process died, or that is older than anything takes, is
 * taken away from it.
 */
export async function withLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  const mine = `${process.pid} ${randomUUID()}\n`;
  const until = performance.now() + WAIT_MS;
  while (!(await take(file, mine))) {
    await takeAway(file);
    if (performance.now() > until) throw refused(`Another berth holds ${file}.`, `rm ${file}`);
    await delay(25 + Math.random() * 50);
  }
  try {
    return await work();
  } finally {
    // Somebody may have taken it away in the meantime: what is theirs stays.
    if ((await readFile(file, "utf8").catch(() => "")) === mine) await rm(file, { force: true });
  }
}

async function take(file: string, text: string): Promise<boolean> {
  try {
    const handle = await open(file, "wx", 0o600);
    await handle.writeFile(text).finally(() => handle.close());
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Removes a lock that nobody holds: by renaming, so that of several that see it only one removes it. */
async function takeAway(file: string): Promise<void> {
  const held = await readFile(file, "utf8").catch(() => undefined);
  if (held === undefined || !(await isStale(file, held))) return;
  const aside = `${file}.${randomUUID()}`;
  try {
    await rename(file, aside);
    // Another process was faster, and took the lock itself: it gets it back.
    if ((await readFile(aside, "utf8")) !== held) await link(aside, file).catch(() => {});
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  } finally {
    await rm(aside, { force: true });
  }
}

async function isStale(file: string, held: string): Promise<boolean> {
  const pid = Number(held.split(" ")[0]);
  if (pid > 0 && isGone(pid)) return true;
  const made = await stat(file).catch(() => undefined);
  // Empty: its process is about to write its pid, or died before.
  const limit = held === "" ? STALE_EMPTY_MS : STALE_MS;
  return made !== undefined && Math.abs(Date.now() - made.mtimeMs) > limit;
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}
