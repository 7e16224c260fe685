import { readFile } from "node:fs/promises";
import { familyOf } from "../support/processes.ts";

const TICK_US = 10_000;

/** CPU time in µs by part: `gateway`, the service's name, `postgres`, `floor`. */
export type CpuTimes = Record<string, number>;

/** Returns the CPU time that a process and all its descendants have used so far, by part. */
export async function cpuTimes(root: number): Promise<CpuTimes> {
  const times: CpuTimes = {};
  for (const pid of await familyOf(root)) {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    const part = partOf(command);
    if (stat === "" || part === undefined) continue;
    times[part] = (times[part] ?? 0) + cpuTimeIn(stat);
  }
  return times;
}

/** Returns the CPU time that a process has used so far, in µs. */
export async function cpuTimeOf(pid: number): Promise<number> {
  return cpuTimeIn(await readFile(`/proc/${pid}/stat`, "utf8"));
}

function cpuTimeIn(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  // utime and stime.
  return (Number(fields[11]) + Number(fields[12])) * TICK_US;
}

function partOf(command: string): string | undefined {
  if (command.startsWith("postgres")) return "postgres";
  return (
    /(?:services\/)?(\w+)\/main\.ts/.exec(command)?.[1] ??
    (command.includes("floor.ts") ? "floor" : undefined)
  );
}

/** Returns the CPU time of each part per request between two readings, in whole µs, of those that took any. */
export function perRequest(before: CpuTimes, after: CpuTimes, requests: number): CpuTimes {
  const parts = Object.keys(after).map((part) => [
    part,
    Math.round(((after[part] ?? 0) - (before[part] ?? 0)) / requests),
  ]);
  return Object.fromEntries(parts.filter(([, us]) => Number(us) > 0));
}
