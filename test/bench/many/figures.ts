import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { placeOf } from "../../../services/deployer/runtime/kubernetes/many/testing.ts";

/** Returns the path of one of the services that run. */
export function pathOf(serviceId: string) {
  const [, environment, service] = serviceId.split("_");
  return { ...placeOf(Number(environment)), service: `web${service}` };
}

/** Returns the resident memory of a process in MiB: now, and the most that it ever had. */
export async function memoryOf(pid: number): Promise<{ now: number; peak: number }> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const read = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1]) / 1024;
  return { now: read("VmRSS"), peak: read("VmHWM") };
}

export const cpuSeconds = (us: number) => `${(us / 1e6).toFixed(1)} s of CPU time`;

/** So much is much for a busy machine. */
export const PATIENCE_MS = 15 * 60_000;

/** Waits until `probe` returns true, and returns how long that took, in ms. */
export async function timeUntil(probe: () => Promise<boolean>, everyMs = 25): Promise<number> {
  const begun = performance.now();
  while (!(await probe())) {
    if (performance.now() - begun > PATIENCE_MS)
      throw new Error("it did not happen within a quarter of an hour");
    await delay(everyMs);
  }
  return performance.now() - begun;
}
