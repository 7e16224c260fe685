import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { StartFailure } from "../failure.ts";
import { type Child, lastLines } from "../processes/child.ts";
import { httpGet } from "../processes/http-get.ts";
import { endOrphan, findProcesses } from "../processes/process-table.ts";
import { type Running, startRunning } from "../processes/running.ts";
import { describeExit } from "../processes/supervise.ts";
import { projectDir } from "../terminal/options.ts";

export type ProgramOptions = {
  name: string;
  folder: string;
  env: Record<string, string>;
  /** Where it listens. */
  host: string;
  port: number;
  /** The data folder: the process's last argument, by which orphans are recognised. */
  data: string;
  log: string;
  /** For an orderly stop; SIGKILL after that. */
  graceMs: number;
};

/** How long a program may take from its start to its first ready answer. */
const READY_MS = 60_000;

/**
 * Starts a program and waits until it has said on its own pipe that it listens, and answers /readyz with 200: before,
 * another process may answer on its port. Events may wait: NATS may be away when a service is restarted.
 *
 * @throws StartFailure `portInUse` when another process took its port, `serviceFailed` with the last lines of its log
 * when it exits for another reason or does not become ready.
 */
export async function startProgram(options: ProgramOptions, signal: AbortSignal): Promise<Running> {
  const { name, folder, env, data, log, graceMs } = options;
  const args = [...NODE_FLAGS, join(projectDir, folder, "main.ts"), data];
  const command = {
    file: process.execPath,
    args,
    env: { ...LEAN_ENV, ...env },
    cwd: projectDir,
    announces: true,
  };
  const ending = { stop: "SIGTERM", graceMs, kill: "SIGKILL" } as const;
  const url = `${urlOn(options.host, options.port)}/readyz?exclude=events`;
  try {
    return await startRunning(command, log, ending, (child) => untilReady(child, url, signal));
  } catch (error) {
    const last = await lastLines(log, 15);
    const taken = last.map((line) => TAKEN.exec(line)?.groups).find((found) => found !== undefined);
    if (taken) throw new StartFailure("portInUse", takenMeanwhile(name, taken), { cause: error });
    const lines = last.map((line) => `  ${line}`).join("\n");
    const sentence = `${name} did not start: ${(error as Error).message}. The end of ${log}:\n${lines}`;
    throw new StartFailure("serviceFailed", sentence, { cause: error });
  }
}

/**
 * The same as in deploy/images/berth.sh. A process frees what its start left behind (kit/process), so new objects may
 * have 16 MiB: with 4, those of open requests are copied so often that a read costs a fifth more. One thread of V8
 * takes several MiB less than four and costs no throughput.
 */
export const NODE_FLAGS = [
  "--disable-warning=ExperimentalWarning",
  "--expose-gc",
  "--max-semi-space-size=16",
  "--v8-pool-size=1",
];
const LEAN_ENV = {
  MALLOC_ARENA_MAX: "1",
  // From the second start on modules are cached: they load faster, and the type stripper is never loaded.
  NODE_COMPILE_CACHE: join(projectDir, ".cache/compile"),
};

const TAKEN = /EADDRINUSE: address already in use (?<host>[0-9a-f.:]+):(?<port>\d+)/;
const takenMeanwhile = (name: string, { host, port }: Record<string, string>) =>
  `Port ${port} on ${host} is in use: another process took it while ${name} was starting. Start again.`;

/** Returns the URL at which programs of this machine reach what listens at `host`, which may stand for all addresses. */
export function urlOn(host: string, port: number): string {
  const reached = { "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host;
  return `http://${reached.includes(":") ? `[${reached}]` : reached}:${port}`;
}

async function untilReady(child: Child, url: string, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + READY_MS;
  let last = "no answer yet";
  while (Date.now() < deadline) {
    const exit = child.exit();
    if (exit) throw new Error(`it ${describeExit(exit)}`);
    if (signal.aborted) throw new Error("it was stopped");
    try {
      if (child.announced()) {
        const { status } = await httpGet(url);
        if (status === 200) return;
        last = `its /readyz answers ${status}`;
      }
    } catch {
      // It is going away again.
    }
    await delay(25);
  }
  throw new Error(`it was not ready after ${READY_MS / 1000} s (${last})`);
}

/** Stops the programs of this data folder that a killed launcher left; `folders` are relative to the project. */
export async function endOrphanedPrograms(folders: string[], data: string): Promise<void> {
  const ends = folders.map((folder) => `/${folder}/main.ts ${data}`);
  const isOurs = (line: string) => ends.some((end) => line.endsWith(end));
  const pids = await findProcesses(isOurs);
  await Promise.all(pids.map((pid) => endOrphan(pid, isOurs, "SIGTERM", 4_000)));
}
