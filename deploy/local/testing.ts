import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/**
 * For tests: starts a process that runs `body` (statements of a module) and then waits, so that it can be killed.
 * Returns the first value that `body` passes to `print`. `path` is the process's PATH.
 */
export async function launch<T>(
  body: string,
  path = process.env.PATH,
): Promise<{ value: T; process: ChildProcess }> {
  const code = `const print = (value) => console.log(JSON.stringify(value));\n${body}\nsetInterval(() => {}, 1e6);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
    env: { ...process.env, PATH: path },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface(child.stdout)) return { value: JSON.parse(line), process: child };
  throw new Error("the launched process exited without printing a value");
}

/** Kills a process with SIGKILL, and waits until it is gone. */
export async function killHard(child: ChildProcess): Promise<void> {
  child.kill("SIGKILL");
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}

/** Returns the URL of a module in deploy/local, for an import in `body`. */
export function moduleUrl(name: string): string {
  return new URL(`./${name}`, import.meta.url).href;
}

/** Waits until `holds` returns true. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
}
