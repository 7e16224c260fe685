import { type Child, type Command, type Exit, startChild } from "./child.ts";

/** A process that runs: a server, a service. */
export type Running = {
  pid: number;
  /** Resolves when the process is gone, whoever ended it. */
  exited: Promise<Exit>;
  /** Stops it in order; may be called again. */
  stop(): Promise<void>;
  /** Kills it at once. */
  kill(): void;
};

/** The signals that end a program, and how long it may take to stop before SIGKILL follows. */
export type Ending = { stop: NodeJS.Signals; graceMs: number; kill: NodeJS.Signals };

/**
 * Starts a program and returns it once `untilReady` resolves. When that rejects, the program is stopped first. Where
 * the system supports it, the program also gets the stop signal when this process dies.
 */
export async function startRunning(
  command: Command,
  log: string,
  ending: Ending,
  untilReady: (child: Child) => Promise<void>,
): Promise<Running> {
  const child = await startChild(command, log, ending.stop);
  const stop = async () => void (await child.end(ending.stop, ending.graceMs));
  try {
    await untilReady(child);
  } catch (error) {
    await stop();
    throw error;
  }
  return { pid: child.pid, exited: child.exited, stop, kill: () => child.kill(ending.kill) };
}

export type ServerOptions = {
  /** The server's folder: made when missing, owned by this server alone. */
  dir: string;
  /** Port at 127.0.0.1; a free one when left out. */
  port?: number;
  /** File to which the server's own log is appended; one in `dir` when left out. */
  log?: string;
};
