import { execFile } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";

/** A failure that the user can act on; printed without a stack trace. */
export class ClusterFailure extends Error {
  override name = "ClusterFailure";
}

type Options = { cwd?: string; env?: NodeJS.ProcessEnv; input?: string; signal?: AbortSignal };

/** Runs a program and returns its output. @throws ClusterFailure with the last lines that it printed. */
export function run(file: string, args: string[], { input, ...options }: Options = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(file, args, { maxBuffer: 64 << 20, ...options }, (error, stdout, stderr) => {
      if (!error) return resolve(stdout);
      const lines = (stderr || stdout || error.message).trim().split("\n").slice(-15).join("\n");
      reject(new ClusterFailure(`${file} ${args.slice(0, 4).join(" ")} failed:\n${lines}`, { cause: error }));
    });
    child.stdin?.on("error", () => {}); // It may exit without reading its input.
    child.stdin?.end(input);
  });
}

/** Returns whether a program runs and succeeds. */
export const works = (file: string, args: string[]): Promise<boolean> =>
  run(file, args).then(
    () => true,
    () => false,
  );

/** Waits until `check` returns true; an error counts as false. @throws ClusterFailure after `seconds`. */
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
  throw new ClusterFailure(`Waited ${seconds} s without success: ${what}${why}`);
}

/** Does `work`, then prints what was done and how long it took. */
export async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await work();
  console.log(`${what}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
  return result;
}
