import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/**
 * For tests: a process that runs `body` (statements of a module; `print(value)` hands a value over) and then
 * waits, so that it can be killed in the middle of its life. `path` is the PATH it sees.
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
  throw new Error("the launched process ended without a word");
}

/** Kill without a chance to clean up, and wait until the process is gone. */
export async function killHard(child: ChildProcess): Promise<void> {
  child.kill("SIGKILL");
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}

/** The address of a module by its path in deploy/local, to import it from `body`. */
export function moduleUrl(name: string): string {
  return new URL(`./${name}`, import.meta.url).href;
}

/** Wait until `holds` is true. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
}
