import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { endProcesses, startedOf } from "../shared/process-tree.ts";

export type CommandContext = {
  cwd: string;
  env: Record<string, string>;
  /** The folder by which the command and everything it starts are found: TMPDIR is in it. */
  folder: string;
};

/**
 * Runs one command of a build as a session of its own and passes its lines to `log`. Resolves with the exit code once
 * none of its processes is left; when `signal` aborts, kills them all and throws the signal's reason.
 */
export async function runCommand(
  [program = "", ...args]: string[],
  { cwd, env, folder }: CommandContext,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<number> {
  signal.throwIfAborted();
  const child = spawn(program, args, { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  const { exited, kill } = superviseSession(child, folder, (error) => log(`${program}: ${error.message}`));
  const read = Promise.all([readLines(child.stdout, log), readLines(child.stderr, log)]);
  const onAbort = () => void kill();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const code = await exited;
    await kill(); // background processes of the command would keep the pipes open
    await read;
    return code;
  } finally {
    signal.removeEventListener("abort", onAbort);
    signal.throwIfAborted();
  }
}

/**
 * Returns the exit code of a detached child (1 after a signal, 127 when it could not be started), and a function that
 * kills its session and every process of `folder`.
 */
export function superviseSession(
  child: ChildProcess,
  folder: string,
  onStartFailed: (error: Error) => void = () => {},
): { exited: Promise<number>; kill: () => Promise<void> } {
  const leader =
    child.pid === undefined ? undefined : { pid: child.pid, started: startedOf(child.pid) ?? "" };
  const exited = new Promise<number>((resolve) => {
    child.once("exit", (code) => resolve(code ?? 1));
    child.once("error", (error) => {
      onStartFailed(error);
      resolve(127);
    });
  });
  return { exited, kill: () => endProcesses(leader, folder, () => 0) };
}

/** A longer line is cut here, because nobody reads it and it must not fill the memory. */
const MAX_LINE_CHARS = 1024 * 1024;
const CUT_LINE_CHARS = 64 * 1024;

/** Emits complete lines without their ends; of a line that overwrites itself, as progress bars do, its last state. */
async function readLines(stream: Readable, log: (line: string) => void): Promise<void> {
  const emit = (line: string) => log(line.replace(/\r$/, "").replace(/^.*\r/s, ""));
  let rest = "";
  try {
    for await (const chunk of stream.setEncoding("utf8")) {
      const lines = chunk.split("\n");
      lines[0] = rest + lines[0];
      rest = lines.pop()!;
      for (const line of lines) emit(line);
      if (rest.length > MAX_LINE_CHARS) {
        emit(rest.slice(0, CUT_LINE_CHARS));
        rest = "";
      }
    }
  } catch {
    // the process was killed
  }
  if (rest !== "") emit(rest);
}
