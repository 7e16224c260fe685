import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** How much the processes of a group may use together. */
export type GroupLimits = {
  /** MiB, without swap. */
  memory: number;
  /** Thousandths of a CPU. */
  cpu: number;
};

/** Limits for processes that this one starts, by control groups of Linux (cgroup v2). */
export type ControlGroups = {
  /** Makes a group and returns the command that runs another one in it. */
  enter(name: string, limits: GroupLimits, argv: string[]): string[];
  /** Changes the limits of a group, if it exists. */
  limit(name: string, limits: GroupLimits): void;
  /** Whether the system ended processes of the group because they needed more memory. */
  ranOutOfMemory(name: string): boolean;
  /** Removes a group that has no processes, if it exists. */
  remove(name: string): void;
};

export const noControlGroups: ControlGroups = {
  enter: (_name, _limits, argv) => argv,
  limit() {},
  ranOutOfMemory: () => false,
  remove() {},
};

const ROOT = "/sys/fs/cgroup";
const CONTROLLERS = "+cpu +memory +pids";
const CPU_PERIOD_US = 100_000;
/** Ends a fork bomb before the machine has no process ids left. */
const MOST_PROCESSES = 1_024;
/** The process moves before the program begins, so all that it starts is in the group. */
const ENTER = 'echo $$ >"$0/cgroup.procs" && exec "$@"';

/**
 * Makes a folder of groups in the control group of this process, and returns its path. Only the owner of a control group
 * can have groups with limits in it, such as a service of systemd with `Delegate=`. To be called before this process
 * starts others. Throws with why there can be none.
 */
export function delegateControlGroups(root = ROOT): string {
  if (process.platform !== "linux") throw new Error("only Linux has control groups");
  if (!existsSync(join(root, "cgroup.controllers"))) throw new Error(`${root} is not of cgroup v2`);
  const path = /^0::(\/.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1] ?? "/";
  // The group of the whole machine or container has other users, and what is made in it stays.
  if (path === "/") throw new Error("this process is in no control group of its own");
  const own = join(root, path);
  // A group with processes cannot limit groups in it: this process moves down.
  const [berth, apps] = [join(own, "berth"), join(own, "apps")];
  const procs = (group: string) => join(group, "cgroup.procs");
  try {
    mkdirSync(berth, { recursive: true });
    writeFileSync(procs(berth), String(process.pid));
    try {
      writeFileSync(join(own, "cgroup.subtree_control"), CONTROLLERS);
      mkdirSync(apps, { recursive: true });
      writeFileSync(join(apps, "cgroup.subtree_control"), CONTROLLERS);
    } catch (error) {
      writeFileSync(procs(own), String(process.pid));
      rmdirSync(berth);
      throw error;
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(`the control group ${path} is not delegated to Berth (${code})`);
  }
  return apps;
}

/** Opens the folder that `delegateControlGroups` returned, and removes groups that an earlier process left empty. */
export function openControlGroups(folder: string): ControlGroups {
  const pathOf = (name: string) => join(folder, name);
  for (const entry of readdirSync(folder, { withFileTypes: true }))
    if (entry.isDirectory()) remove(entry.name);

  function limit(name: string, { memory, cpu }: GroupLimits): void {
    const group = pathOf(name);
    if (!existsSync(group)) return; // adopted, from before there were groups
    const settings = {
      "memory.max": memory * 1024 ** 2,
      "cpu.max": `${(cpu * CPU_PERIOD_US) / 1000} ${CPU_PERIOD_US}`,
    };
    for (const [file, value] of Object.entries(settings)) writeFileSync(join(group, file), String(value));
  }

  function remove(name: string): void {
    try {
      rmdirSync(pathOf(name));
    } catch {
      // There is none, or processes are in it.
    }
  }

  return {
    enter(name, limits, argv) {
      const group = pathOf(name);
      mkdirSync(group, { recursive: true });
      limit(name, limits);
      // All of it at once: what is left after one process is gone is no app that works.
      writeFileSync(join(group, "memory.oom.group"), "1");
      writeFileSync(join(group, "pids.max"), String(MOST_PROCESSES));
      // Kernels without swap do not have it.
      const swap = join(group, "memory.swap.max");
      if (existsSync(swap)) writeFileSync(swap, "0");
      return ["/bin/sh", "-c", ENTER, group, ...argv];
    },
    limit,
    ranOutOfMemory(name) {
      try {
        const events = readFileSync(join(pathOf(name), "memory.events"), "utf8");
        return /^oom_kill [1-9]/m.test(events);
      } catch {
        return false;
      }
    },
    remove,
  };
}
