import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { freePort } from "../process/free-port.ts";
import { eventually } from "./testing.ts";

/** What Node needs of this process's environment in one that a test starts; loading modules from a cache halves a start. */
export const nodeEnv = {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
};

export type ServiceProcess = ReturnType<typeof serviceProcess>;

/** A service as a process of its own, which a test can kill: its main file, its environment and where it listens. */
export function serviceProcess({
  main,
  env,
  port,
}: {
  main: string;
  env: Record<string, string>;
  port: number;
}) {
  let child: ChildProcess | undefined;
  let output = "";
  return {
    /** Starts it with `more` environment, optionally by the command `wrapper`, and waits until it is ready. */
    async run(more: Record<string, string> = {}, wrapper: string[] = []): Promise<void> {
      const [program, ...args] = [...wrapper, process.execPath, main];
      const started = spawn(program!, args, {
        env: {
          ...nodeEnv,
          ...env,
          LOG_LEVEL: "debug",
          ...more,
        },
        stdio: ["ignore", "pipe", "pipe"],
      });
      child = started;
      for (const stream of [started.stdout, started.stderr]) stream.on("data", (part) => (output += part));
      await eventually("the service is ready", () => {
        if (hasEnded(started)) throw new Error(`the service ended at its start: ${output.slice(-2_000)}`);
        return fetch(`http://127.0.0.1:${more.PORT ?? port}/readyz?exclude=events`).then(
          (answer) => answer.ok,
          () => false,
        );
      });
    },
    /** Ends it. Returns its exit code. */
    async end(signal: NodeJS.Signals): Promise<number | null> {
      const ending = child;
      child = undefined;
      if (!ending || hasEnded(ending)) return null;
      const exited = once(ending, "exit");
      ending.kill(signal);
      return (await exited)[0];
    },
    pid: () => child?.pid,
    runs: () => child !== undefined && !hasEnded(child),
    output: () => output,
  };
}

/** Processes of a service, each on a port of its own. */
export function serviceProcesses(main: string, env: Record<string, string>) {
  const started: ServiceProcess[] = [];
  return {
    /** Starts one with `more` environment, and waits until it is ready. */
    async start(more: Record<string, string> = {}) {
      const port = await freePort();
      const made = serviceProcess({ main, env: { ...env, ...more, PORT: String(port) }, port });
      started.push(made);
      await made.run();
      return { ...made, port };
    },
    /** Kills those that run. */
    endAll: () => Promise.all(started.map((each) => each.end("SIGKILL"))),
  };
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
