import { execFile } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";

/** A reason that the reader can act on; printed without a stack. */
export class ClusterFailure extends Error {
  override name = "ClusterFailure";
}

type Options = { cwd?: string; env?: NodeJS.ProcessEnv; input?: string; signal?: AbortSignal };

/** Run a program to its end; gives what it printed. Throws with the end of what it complained about. */
export function run(file: string, args: string[], { input, ...options }: Options = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(file, args, { maxBuffer: 64 << 20, ...options }, (error, stdout, stderr) => {
      if (!error) return resolve(stdout);
      const said = (stderr || stdout || error.message).trim().split("\n").slice(-15).join("\n");
      reject(new ClusterFailure(`${file} ${args.slice(0, 4).join(" ")} failed:\n${said}`, { cause: error }));
    });
    child.stdin?.on("error", () => {}); // It may end without reading.
    child.stdin?.end(input);
  });
}

/** Whether a program runs and ends well. */
export const works = (file: string, args: string[]): Promise<boolean> =>
  run(file, args).then(
    () => true,
    () => false,
  );

/** Wait until `check` gives true; what it throws counts as false. */
export async function until(what: string, check: () => Promise<boolean>, seconds = 60): Promise<void> {
  const end = Date.now() + seconds * 1000;
  let last: unknown;
  while (Date.now() < end) {
    try {
      if (await check()) return;
    } catch (error) {
      last = error;
    }
    await delay(100);
  }
  const why = last instanceof Error ? `: ${last.message}` : "";
  throw new ClusterFailure(`Waited ${seconds} s in vain: ${what}${why}`);
}

/** Print a line about work that takes time, and how long it took. */
export async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await work();
  console.log(`${what}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
  return result;
}
