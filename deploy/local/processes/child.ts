import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { open } from "node:fs/promises";
import type { Readable } from "node:stream";

/** A program to start and the OS user it runs as. */
export type Command = {
  /** A program, with its arguments, that changes the OS user and then becomes `file`; usually empty. */
  prefix?: string[];
  file: string;
  args: string[];
  env: NodeJS.ProcessEnv;
  cwd: string;
  uid?: number;
  gid?: number;
  /** Gives it a pipe of its own, whose number READY_FD says, on which it says that it is ready. */
  announces?: boolean;
};

/** How a child exited: its exit code, or the signal that killed it. */
export type Exit = { code: number | null; signal: NodeJS.Signals | null };

export type Child = {
  pid: number;
  /** Resolves when the process is gone; never rejects. */
  exited: Promise<Exit>;
  /** The exit when the process is gone already, else undefined. */
  exit(): Exit | undefined;
  /** Whether it has said on its own pipe that it is ready: nobody else can, whoever owns its port. */
  announced(): boolean;
  /** Sends `signal`, and SIGKILL after `graceMs`; resolves when the process is gone. */
  end(signal: NodeJS.Signals, graceMs: number): Promise<Exit>;
  kill(signal: NodeJS.Signals): void;
};

/**
 * Starts a program with its output appended to the file `log` (no pipe: it can keep writing when this process is
 * gone). It runs in a session of its own, so that a Ctrl-C in the terminal reaches only the launcher, which stops
 * its children in order. Where the system supports it, it gets `deathSignal` when this process dies.
 */
export async function startChild(command: Command, log: string, deathSignal: NodeJS.Signals): Promise<Child> {
  // The prefix comes first: changing the user would clear the death signal.
  const [file, ...args] = [
    ...(command.prefix ?? []),
    ...(await deathPrefix(deathSignal)),
    command.file,
    ...command.args,
  ];
  const output = openSync(log, "a", 0o600);
  try {
    const { announces } = command;
    const process = spawn(file as string, args, {
      env: { ...command.env, ...(announces && { READY_FD: "3" }) },
      cwd: command.cwd,
      uid: command.uid,
      gid: command.gid,
      detached: true,
      stdio: ["ignore", output, output, ...(announces ? ["pipe" as const] : [])],
    });
    await once(process, "spawn");
    return toChild(process);
  } finally {
    closeSync(output);
  }
}

function toChild(process: ChildProcess): Child {
  let ended: Exit | undefined;
  let announced = false;
  const pipe = process.stdio[3] as Readable | undefined;
  pipe?.on("error", () => {});
  pipe?.once("data", () => {
    announced = true;
    pipe.destroy();
  });
  const exited = new Promise<Exit>((resolve) => {
    process.once("exit", (code, signal) => {
      ended = { code, signal };
      resolve(ended);
    });
  });
  return {
    pid: process.pid as number,
    exited,
    exit: () => ended,
    announced: () => announced,
    kill: (signal) => void process.kill(signal),
    end: async (signal, graceMs) => {
      process.kill(signal);
      const killer = setTimeout(() => process.kill("SIGKILL"), graceMs);
      const exit = await exited;
      clearTimeout(killer);
      return exit;
    },
  };
}

let setprivWorks: Promise<boolean> | undefined;

/** util-linux's setpriv asks the kernel to signal the program it becomes when its parent dies (Linux only). */
async function deathPrefix(signal: NodeJS.Signals): Promise<string[]> {
  setprivWorks ??= new Promise((resolve) => {
    execFile("setpriv", ["--pdeathsig=TERM", "--", "true"], (error) => resolve(!error));
  });
  return (await setprivWorks) ? ["setpriv", `--pdeathsig=${signal.slice(3)}`, "--"] : [];
}

/** Returns the last `count` lines of a log file, without the newline at its end; empty when there is no such file. */
export async function lastLines(log: string, count: number): Promise<string[]> {
  let file: Awaited<ReturnType<typeof open>>;
  try {
    file = await open(log);
  } catch {
    return [];
  }
  try {
    const { size } = await file.stat();
    const length = Math.min(size, 32 * 1024);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
    return buffer.subarray(0, bytesRead).toString("utf8").trimEnd().split("\n").slice(-count);
  } finally {
    await file.close();
  }
}
