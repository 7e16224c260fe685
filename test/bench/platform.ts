import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { type Dispatcher, Pool } from "undici";
import { familyOf } from "../support/processes.ts";

export type Local = {
  origin: string;
  baseUrl: string;
  ownerToken: string;
  ownerEmail: string;
  accountId: string;
  pid: number;
};

export type Platform = Local & {
  /** From the start of the process to `.berth/local.json`. */
  readyMs: number;
  /** The data folder. */
  dir: string;
  call: <T>(method: string, path: string, body?: unknown) => Promise<T>;
  stop: () => Promise<void>;
};

const root = resolve(import.meta.dirname, "../..");

/** Starts the whole platform as `npm start` does, in a temporary folder, without rate limits. */
export async function startPlatform(): Promise<Platform> {
  const dir = await mkdtemp(join(tmpdir(), "berth-bench-"));
  const started = performance.now();
  const child = spawn(process.execPath, ["deploy/local/main.ts", "--data", dir], {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, RATE_LIMITS: "off" },
  });
  const end = async () => {
    child.kill("SIGTERM");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    await rm(dir, { recursive: true, force: true });
  };
  endAllOnSignal(end);
  const local = await untilReady(child, dir);
  const readyMs = performance.now() - started;
  const http = new Pool(local.origin);
  const prefix = new URL(local.baseUrl).pathname;
  return {
    ...local,
    dir,
    readyMs,
    // Not by `fetch`, which takes a fifth of the time of a POST itself.
    call: async (method, path, sent) => {
      const { statusCode, body } = await http.request({
        path: prefix + path,
        method: method as Dispatcher.HttpMethod,
        headers: { authorization: `Bearer ${local.ownerToken}`, "content-type": "application/json" },
        body: sent === undefined ? null : JSON.stringify(sent),
      });
      const text = await body.text();
      if (statusCode >= 300) throw new Error(`${method} ${path}: ${statusCode} ${text}`);
      return (text === "" ? undefined : JSON.parse(text)) as never;
    },
    stop: async () => {
      await http.close();
      await end();
    },
  };
}

/** A run that is ended leaves nothing behind: neither its platform nor a process of the row that it was at. */
function endAllOnSignal(end: () => Promise<void>): void {
  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    process.once(signal, async () => {
      // What the row was waiting for fails from here on, which would end this process before the platform.
      process.on("uncaughtException", () => {});
      await end();
      const others = (await familyOf(process.pid)).filter((pid) => pid !== process.pid);
      for (const pid of others) {
        try {
          process.kill(pid, "SIGKILL");
        } catch {
          // It has ended by itself.
        }
      }
      process.exit(code);
    });
  }
}

/** Creates a project of this name, made unique, and an environment in it; returns their paths. */
export async function newEnvironment(platform: Platform, name: string): Promise<{ P: string; E: string }> {
  const projects = `/accounts/${platform.accountId}/projects`;
  const create = async (list: string, body: { name: string }) =>
    `${list}/${(await platform.call<{ id: string }>("POST", list, body)).id}`;
  const P = await create(projects, { name: `${name}-${randomBytes(4).toString("hex")}` });
  return { P, E: await create(`${P}/environments`, { name: "production" }) };
}

async function untilReady(child: ChildProcess, dir: string): Promise<Local> {
  for await (const _line of createInterface({ input: child.stdout! })) {
    const local = await readFile(join(dir, "local.json"), "utf8").catch(() => undefined);
    if (local) {
      child.stdout!.resume();
      return JSON.parse(local) as Local;
    }
  }
  throw new Error("the platform did not start");
}

/** Returns the resident memory of a process and all its descendants in MiB, shared pages counted once (PSS). */
export async function residentMiB(rootPid: number): Promise<number> {
  let kib = 0;
  for (const pid of await familyOf(rootPid)) {
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "utf8").catch(() => "");
    kib += Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0);
  }
  return kib / 1024;
}
