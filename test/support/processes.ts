import { readdir, readFile } from "node:fs/promises";

/** Returns the pids of a process and all its descendants. */
export async function familyOf(root: number): Promise<number[]> {
  const parents = new Map<number, number>();
  for (const name of await readdir("/proc")) {
    const stat = /^\d+$/.test(name) ? await readFile(`/proc/${name}/stat`, "utf8").catch(() => "") : "";
    if (stat) parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
  }
  const belongs = (pid: number): boolean => pid === root || (parents.has(pid) && belongs(parents.get(pid)!));
  return [...parents.keys()].filter(belongs);
}
