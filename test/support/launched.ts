import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { freePort } from "../../services/kit/process/free-port.ts";
import { onSmallDisk } from "../../services/kit/testing/small-disk.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { familyOf } from "./processes.ts";

const root = resolve(import.meta.dirname, "../..");

export type Local = {
  origin: string;
  baseUrl: string;
  ownerToken: string;
  accountId: string;
  mailUrl?: string;
  checkoutUrl?: string;
  pid: number;
};

/** A file system of `bytes`, mounted at a folder of the data folder. */
export type Disk = { at: string; bytes: number };

/** The platform as `npm start` runs it, in a folder of its own: real processes, which can be killed. */
export type Launched = Awaited<ReturnType<typeof launchOnce>>;

type LaunchOptions = { dir?: string; disk?: Disk; env?: NodeJS.ProcessEnv; args?: string[] };

/** No limit of requests, and no notices of the disk and the memory of where the tests run. */
export const QUIET = {
  RATE_LIMITS: "off",
  DISK_WARN_PERCENT: "0",
  DISK_URGENT_PERCENT: "0",
  MEMORY_WARN_PERCENT: "0",
};

/** Between the choice of a free port and its use, another test's platform may take it. */
const TRIES = 3;
const PORT_TAKEN = /EADDRINUSE|Port \d+ on \S+ is in use/;

export async function launch(options: LaunchOptions = {}): Promise<Launched> {
  for (let tries = 1; ; tries++) {
    const data = options.dir ?? (await mkdtemp(join(tmpdir(), "berth-launched-")));
    try {
      return await launchOnce(data, options);
    } catch (error) {
      if (!options.dir) await rm(data, { recursive: true, force: true });
      if (tries === TRIES || !PORT_TAKEN.test(String(error))) throw error;
    }
  }
}

async function launchOnce(data: string, { disk, env, args: more = [] }: LaunchOptions) {
  const port = (await formerPort(data)) ?? (await freePort());
  const command = [process.execPath, "deploy/local/main.ts", "--data", data, "--port", String(port), ...more];
  if (disk) await mkdir(join(data, disk.at), { recursive: true });
  const [program, ...args] = disk ? [...onSmallDisk(join(data, disk.at), disk.bytes), ...command] : command;
  const child = spawn(program!, args, {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...QUIET, ...env },
  });
  // The disk is mounted for the platform only.
  const localFile = join(`/proc/${child.pid}/root`, data, "local.json");
  let output = "";
  for (const stream of [child.stdout!, child.stderr!])
    stream.on("data", (chunk) => {
      output += chunk;
    });
  const ready = eventually("the platform is ready", async () => {
    if (child.exitCode !== null)
      throw new Error(`the launcher exited with code ${child.exitCode}:\n${output}`);
    const text = await readFile(localFile, "utf8").catch(() => undefined);
    const found = text ? (JSON.parse(text) as Local) : undefined;
    return found?.pid === child.pid && found;
  });
  const local = await ready.catch(async (error) => {
    await end(child, "SIGTERM");
    throw error;
  });
  return {
    ...local,
    data,
    child,
    output: () => output,
    /** Kills the process of a program (`services/deployer`, `gateway`) with SIGKILL. */
    async kill(program: string): Promise<void> {
      process.kill(await processOf(local.pid, `${program}/main.ts`), "SIGKILL");
    },
    /** Repeats a request until it is answered with less than 500, while a killed process restarts. */
    async requestUntilAnswered(
      method: string,
      path: string,
      body?: unknown,
    ): Promise<{ status: number; body: never }> {
      return eventually(`${method} ${path} is answered`, async () => {
        const answer = await request(local, method, path, body).catch(() => undefined);
        return answer && answer.status < 500 && answer;
      });
    },
    request: (method: string, path: string, body?: unknown) => request(local, method, path, body),
    async stop(): Promise<void> {
      await end(child, "SIGTERM");
      await rm(data, { recursive: true, force: true });
    },
  };
}

/** Returns the gateway's port of the run before, so that addresses stay. */
async function formerPort(data: string): Promise<number | undefined> {
  return JSON.parse(await readFile(join(data, "ports.json"), "utf8").catch(() => "{}")).gateway;
}

async function request(local: Local, method: string, path: string, body?: unknown) {
  const answer = await fetch(path.startsWith("http") ? path : local.baseUrl + path, {
    method,
    headers: { authorization: `Bearer ${local.ownerToken}`, "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, body: (text ? JSON.parse(text) : {}) as never };
}

/** Sends a signal and waits until the process has exited. */
export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill(signal);
  await gone;
}

/** Returns the pid of the one descendant whose command line contains a text. */
export async function processOf(ancestor: number, text: string): Promise<number> {
  const found: number[] = [];
  for (const pid of await familyOf(ancestor)) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (pid !== ancestor && command.includes(text)) found.push(pid);
  }
  if (found.length !== 1) throw new Error(`${found.length} processes match ${text}`);
  return found[0]!;
}
