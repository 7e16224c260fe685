import { spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { endProcesses, startedOf } from "../shared/process-tree.ts";

export type CommandContext = {
  cwd: string;
  env: Record<string, string>;
  /** What the command and all it starts is known by: TMPDIR lies in it. */
  folder: string;
};

/**
 * Runs one command of a build as a session of its own and gives its lines to `log`. Resolves with the exit
 * code once nothing of it is left; when `signal` aborts it kills all of it and throws the signal's reason.
 */
export async function runCommand(
  [program = "", ...args]: string[],
  { cwd, env, folder }: CommandContext,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<number> {
  signal.throwIfAborted();
  const child = spawn(program, args, { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  const leader =
    child.pid === undefined ? undefined : { pid: child.pid, started: startedOf(child.pid) ?? "" };
  const kill = () => endProcesses(leader, folder, () => 0);
  const exited = new Promise<number>((resolve) => {
    child.once("exit", (code) => resolve(code ?? 1));
    child.once("error", (error) => {
      log(`${program}: ${error.message}`);
      resolve(127);
    });
  });
  const read = Promise.all([readLines(child.stdout, log), readLines(child.stderr, log)]);
  const onAbort = () => void kill();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const code = await exited;
    await kill(); // what it left in the background holds the pipes open
    await read;
    return code;
  } finally {
    signal.removeEventListener("abort", onAbort);
    signal.throwIfAborted();
  }
}

/** Complete lines, without their ends; of a line drawn over itself, as progress bars do, the last state. */
async function readLines(stream: Readable, log: (line: string) => void): Promise<void> {
  const emit = (line: string) => log(line.replace(/\r$/, "").replace(/^.*\r/s, ""));
  let rest = "";
  try {
    for await (const chunk of stream.setEncoding("utf8")) {
      const lines = chunk.split("\n");
      lines[0] = rest + lines[0];
      rest = lines.pop()!;
      for (const line of lines) emit(line);
      // Nobody reads a line this long; it must not fill the memory.
      if (rest.length > 1024 * 1024) {
        emit(rest.slice(0, 64 * 1024));
        rest = "";
      }
    }
  } catch {
    // the process was killed
  }
  if (rest !== "") emit(rest);
}
