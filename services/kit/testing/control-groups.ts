import { existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = "/sys/fs/cgroup";
let made = 0;

/**
 * Makes a folder for control groups below that of all, which takes root and cgroup v2, and returns it with what removes it;
 * undefined where this machine lets us have none, which is printed.
 */
export const makeGroupsFolder: (() => { folder: string; remove: () => void }) | undefined = findGroups();

function findGroups() {
  const make = () => {
    const folder = join(ROOT, `berth-test-${process.pid}-${++made}`);
    mkdirSync(folder);
    const remove = () => rmdirSync(folder);
    try {
      writeFileSync(join(folder, "cgroup.subtree_control"), "+cpu +memory +pids");
    } catch (error) {
      remove();
      throw error;
    }
    return { folder, remove };
  };
  try {
    // Elsewhere it may be a folder like any other.
    if (!existsSync(join(ROOT, "cgroup.controllers"))) throw new Error(`${ROOT} is not of cgroup v2`);
    make().remove();
    return make;
  } catch (error) {
    console.log(`Skipped: apps held to their sizes by the kernel. ${(error as Error).message}.`);
    return undefined;
  }
}
