import { execFile } from "node:child_process";
import { readFile, stat, statfs } from "node:fs/promises";

/** A resource of the node: how much there is, and how much of it is left, in bytes. */
export type Measure = { total: number; left: number };
/** A disk, with those of the watched folders that are on it, but for folders in other ones. */
export type Disk = Measure & { folders: string[] };

const KIB = 1024;
/** A folder of millions of files may take longer: then it is not said what uses the disk. */
const USAGE_TIMEOUT_MS = 20_000;

export const usedPercent = ({ total, left }: Measure) => 100 * (1 - left / total);

/** Returns the fullest disk of some folders, as users other than root can use it; folders may be missing. */
export async function measureDisk(folders: string[]): Promise<Disk | undefined> {
  const disks = new Map<number, Disk>();
  // The outer ones first: another disk may be mounted on one in them.
  for (const folder of folders.toSorted((a, b) => a.length - b.length)) {
    const [on, size] = await Promise.all([stat(folder).catch(ifMissing), statfs(folder).catch(ifMissing)]);
    if (!on || !size) continue;
    const total = (size.blocks - size.bfree + size.bavail) * size.bsize;
    const known = disks.get(on.dev)?.folders ?? [];
    if (known.some((other) => folder.startsWith(`${other}/`))) continue;
    if (total > 0) disks.set(on.dev, { total, left: size.bavail * size.bsize, folders: [...known, folder] });
  }
  return [...disks.values()].toSorted((a, b) => usedPercent(b) - usedPercent(a))[0];
}

/** Returns the memory of the node, also in a container; undefined on other systems than Linux. */
export async function measureMemory(): Promise<Measure | undefined> {
  const text = (await readFile("/proc/meminfo", "utf8").catch(ifMissing)) ?? "";
  const total = Number(/^MemTotal: +(\d+) kB$/m.exec(text)?.[1]) * KIB;
  const left = Number(/^MemAvailable: +(\d+) kB$/m.exec(text)?.[1]) * KIB;
  return total > 0 && left >= 0 ? { total, left } : undefined;
}

export type Part = { path: string; bytes: number };

/** Returns the parts of a disk that use most of it, as far as they are in its folders. */
export async function largestParts({ folders, total, left }: Disk, signal?: AbortSignal): Promise<Part[]> {
  const options = { timeout: USAGE_TIMEOUT_MS, maxBuffer: 16 * KIB ** 2, signal };
  const lines = await new Promise<string>((resolve) =>
    execFile("du", ["-xk", "-d", "2", ...folders], options, (error, stdout) =>
      // It also fails where it may not read a folder, and tells the others.
      resolve(error?.killed || signal?.aborted ? "" : stdout),
    ),
  );
  return toLargest(lines, folders, (total - left) / 20);
}

const SHOWN = 3;

/**
 * Returns the largest parts among the lines of `du`, of at least `least` bytes: folders in one of `folders`, or instead of
 * such a folder the one in it that is most of it. Pure.
 */
export function toLargest(lines: string, folders: string[], least: number): Part[] {
  const parts = lines.split("\n").flatMap((line): Part[] => {
    const [size, path] = line.split("\t");
    return path ? [{ path, bytes: Number(size) * KIB }] : [];
  });
  const inside = (path: string, folder: string) =>
    path.startsWith(`${folder}/`) && !path.slice(folder.length + 1).includes("/");
  return parts
    .filter(({ path, bytes }) => bytes >= least && folders.some((folder) => inside(path, folder)))
    .map((top) => parts.find(({ path, bytes }) => inside(path, top.path) && bytes > top.bytes / 2) ?? top)
    .toSorted((a, b) => b.bytes - a.bytes)
    .slice(0, SHOWN);
}

function ifMissing(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
}
