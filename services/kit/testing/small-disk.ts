import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BALLAST = "ballast";

/** What comes before a command that shall have a file system of its own, of so many bytes, at a folder. */
export function onSmallDisk(dir: string, bytes: number): string[] {
  const mount = `mount -t tmpfs -o size=${bytes},mode=711 tmpfs "$0" && exec "$@"`;
  return ["unshare", ...(process.getuid?.() === 0 ? [] : ["-r"]), "-m", "sh", "-c", mount, dir];
}

/** Whether a small disk can be had here; where not, says once what is skipped for it. */
export function canMount(skipped: string): boolean {
  const place = mkdtempSync(join(tmpdir(), "berth-mount-"));
  const [program, ...args] = [...onSmallDisk(place, 1024 ** 2), "true"];
  const { status } = spawnSync(program!, args);
  rmSync(place, { recursive: true });
  if (status !== 0) console.warn(`${skipped} skipped: no file system can be mounted here.`);
  return status === 0;
}

/** Takes all room on the disk of a folder by the file `ballast` in it, but for so many bytes; may be called again. */
export function fillDisk(dir: string, left = 0): void {
  const file = openSync(join(dir, BALLAST), "a");
  try {
    const part = Buffer.alloc(1024 ** 2);
    const room = () => {
      const { bavail, bsize } = statfsSync(dir);
      return bavail * bsize - left;
    };
    for (let rest = room(); rest > 0; rest = room()) writeSync(file, part, 0, Math.min(rest, part.length));
  } catch (error) {
    // Somebody else took it first.
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  } finally {
    closeSync(file);
  }
}

/** Gives that room back. */
export const emptyDisk = (dir: string) => rmSync(join(dir, BALLAST), { force: true });
