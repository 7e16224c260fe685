import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isAlive, type ProcessRef, startedOf } from "../../shared/process-tree.ts";
import { RuntimeRefusal } from "../../terms/runtime-refusal.ts";

const FILE_NAME = "lock.json";

/** Locks the folder for this process. Throws `runtime_in_use` while another living process holds it. */
export function lockFolder(folder: string): void {
  const path = join(folder, FILE_NAME);
  const own: ProcessRef = { pid: process.pid, started: startedOf(process.pid) ?? "" };
  for (;;) {
    try {
      writeFileSync(path, JSON.stringify(own), { flag: "wx", mode: 0o600 });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const holder = readHolder(path);
    if (holder && isAlive(holder)) {
      throw new RuntimeRefusal(
        "runtime_in_use",
        `Process ${holder.pid} already runs the services in ${folder}.`,
      );
    }
    rmSync(path, { force: true });
  }
}

export function unlockFolder(folder: string): void {
  if (readHolder(join(folder, FILE_NAME))?.pid === process.pid)
    rmSync(join(folder, FILE_NAME), { force: true });
}

function readHolder(path: string): ProcessRef | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}
