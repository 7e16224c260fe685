import { spawn } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../../kit/log.ts";
import { findFreePort, isFree } from "../../runtime/local/service/instance.ts";
import type { ServiceSize, UsageChange } from "../../runtime/port.ts";
import { endedUnwatched, startAliveMark } from "../../shared/alive-mark.ts";
import {
  endProcesses,
  findProcessesOf,
  isAlive,
  type ProcessRef,
  startedOf,
} from "../../shared/process-tree.ts";
import { appendUsage } from "../../usage/journal.ts";
import { RedisRefusal, sendCommands } from "./redis-client.ts";

/** What an addon's server should be. The password is never an argument of a process. */
type RedisWanted = { password: string; size: ServiceSize; port?: number };

type RedisStatus = { serviceId: string; running: boolean; size: ServiceSize; usage: UsageChange[] };

export type RedisServers = ReturnType<typeof createRedisServers>;

/** All that outlives the deployer's process, besides the server's own files. No secret. */
type Record = ProcessRef & { port: number; size: ServiceSize; usage: UsageChange[] };

const MEBIBYTES = { nano: 256, small: 512, medium: 1024, large: 4096 };
const WATCH_MS = 200;
/** A server with much data needs long to read it. */
const START_MS = 30_000;
const GRACE_MS = 5_000;

/**
 * Servers of redis addons, one process group for each, with everything in a folder of its own: they outlive
 * this process, and the next one takes them over. Starting one again that ended is the caller's. `path` is
 * their PATH.
 */
export function createRedisServers(given: { folder: string; log: Logger; path: () => string | undefined }) {
  const { log } = given;
  let changed = (_serviceId: string) => {};
  // Processes are known by these paths.
  const root = resolve(given.folder);
  const servers = new Map<string, Record>();
  /** Those of which the disk has an older record. */
  const unsaved = new Set<string>();
  let alive: ReturnType<typeof startAliveMark> | undefined;
  let watching: NodeJS.Timeout | undefined;
  let stopping = false;
  const folderOf = (serviceId: string) => join(root, serviceId);

  function save(serviceId: string, record: Record): void {
    servers.set(serviceId, record);
    try {
      writeWhole(join(folderOf(serviceId), "state.json"), JSON.stringify(record));
      unsaved.delete(serviceId);
    } catch (error) {
      // On a full disk it goes on; without the record the next process starts the server anew.
      if (!unsaved.has(serviceId)) log.warn({ err: error, serviceId }, "a state could not be written");
      unsaved.add(serviceId);
    }
  }

  function note(serviceId: string, record: Record, replicas: number, at: number): void {
    save(serviceId, { ...record, usage: appendUsage(record.usage, { at, replicas }) });
  }

  function watch(): void {
    for (const [serviceId, record] of servers) {
      if (unsaved.has(serviceId)) save(serviceId, record);
      if (!runs(record) || isAlive(record)) continue;
      log.warn({ serviceId }, "a redis server has ended");
      note(serviceId, record, 0, Date.now());
      changed(serviceId);
    }
  }

  /** Takes over a server that an earlier process started, or ends what is left of it. */
  async function adopt(serviceId: string): Promise<void> {
    const folder = folderOf(serviceId);
    const record = readRecord(folder);
    if (record && isAlive(record)) {
      servers.set(serviceId, record);
      log.info({ serviceId }, "took over a redis server");
      return;
    }
    await endProcesses(undefined, folder, () => Date.now() + GRACE_MS);
    if (record) note(serviceId, record, 0, endedUnwatched(alive?.before, [join(folder, "output")]));
  }

  /** Starts the server and waits until it answers to its password. */
  async function launch(serviceId: string, program: string, wanted: RedisWanted): Promise<number> {
    const folder = folderOf(serviceId);
    const before = servers.get(serviceId);
    const port = await choosePort(before?.port ?? wanted.port);
    await endProcesses(undefined, folder, () => Date.now() + GRACE_MS);
    mkdirSync(join(folder, "data"), { recursive: true, mode: 0o700 });
    writeWhole(configPath(folder), configText(folder, port, wanted));
    const output = openSync(join(folder, "output"), "w", 0o600);
    const child = spawn(program, [configPath(folder)], {
      cwd: join(folder, "data"),
      env: { PATH: given.path(), HOME: folder, TMPDIR: folder, LANG: "C.UTF-8" },
      detached: true,
      stdio: ["ignore", output, output],
    });
    closeSync(output);
    child.on("error", (error) => log.warn({ err: error, serviceId }, "redis could not be started"));
    child.unref();
    const ref = { pid: child.pid ?? 0, started: startedOf(child.pid ?? 0) ?? "" };
    const record = { ...ref, port, size: wanted.size, usage: before?.usage ?? [] };
    save(serviceId, record);
    for (const deadline = Date.now() + START_MS; ; await delay(20)) {
      if (await answers(port, wanted.password)) break;
      if (stopping || !isAlive(ref) || Date.now() > deadline) {
        await endProcesses(ref, folder, () => Date.now() + GRACE_MS);
        throw new Error("the redis server did not start; its folder has what it said");
      }
    }
    note(serviceId, record, 1, Date.now());
    return port;
  }

  /** Brings password and memory of a running server to what is wanted; `false`: only a new start does. */
  async function adjust(serviceId: string, record: Record, wanted: RedisWanted): Promise<boolean> {
    const folder = folderOf(serviceId);
    const text = configText(folder, record.port, wanted);
    const known = readText(configPath(folder));
    if (known === text && (await answers(record.port, wanted.password))) return true;
    const set = [
      ["CONFIG", "SET", "maxmemory", `${MEBIBYTES[wanted.size]}mb`],
      ["CONFIG", "SET", "requirepass", wanted.password],
    ];
    // It has the new password already when an earlier attempt was killed half-way.
    const passwords = [wanted.password, /^requirepass (\S+)$/m.exec(known)?.[1] ?? ""];
    for (const password of passwords) {
      const done = await sendCommands(record.port, [["AUTH", password], ...set]).then(
        () => true,
        (error) => {
          if (error instanceof RedisRefusal) return false;
          throw error;
        },
      );
      if (!done) continue;
      writeWhole(configPath(folder), text);
      save(serviceId, { ...record, size: wanted.size });
      return true;
    }
    return false;
  }

  return {
    /** Takes over what runs since an earlier process was killed, and ends what belongs to nothing. */
    async start(): Promise<void> {
      alive = startAliveMark(root);
      const found = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
      await Promise.all(found.map(({ name }) => adopt(name)));
      const known = new Set(found.map(({ name }) => folderOf(name)));
      const orphans = findProcessesOf(root).filter(
        ({ path }) => ![...known].some((folder) => path === folder || path.startsWith(`${folder}/`)),
      );
      const deadline = Date.now() + GRACE_MS;
      await Promise.all(orphans.map((orphan) => endProcesses(orphan, orphan.path, () => deadline)));
      watching = setInterval(watch, WATCH_MS).unref();
    },
    /**
     * Brings a server to what is wanted: starts it, or changes it while it runs. Resolves with its port once
     * it answers; the port stays the same unless another program has taken it. Can be repeated.
     */
    async ensure(serviceId: string, program: string, wanted: RedisWanted): Promise<number> {
      const record = servers.get(serviceId);
      if (record && isAlive(record)) {
        if (await adjust(serviceId, record, wanted)) {
          const now = servers.get(serviceId)!;
          if (!runs(now)) note(serviceId, now, 1, Date.now());
          return record.port;
        }
        await endProcesses(record, folderOf(serviceId), () => Date.now() + GRACE_MS);
        note(serviceId, record, 0, Date.now());
      }
      return launch(serviceId, program, wanted);
    },
    /** Calls back when a server has ended by itself, for speed; `status` is the truth. */
    watch(listener: (serviceId: string) => void): void {
      changed = listener;
    },
    status: (serviceId: string): RedisStatus | undefined => describe(serviceId, servers.get(serviceId)),
    list: (): RedisStatus[] => [...servers].map(([id, record]) => describe(id, record)!),
    /** Ends the server and removes its data. Idempotent. */
    async remove(serviceId: string): Promise<void> {
      const record = servers.get(serviceId);
      servers.delete(serviceId);
      unsaved.delete(serviceId);
      await endProcesses(record, folderOf(serviceId), () => Date.now() + GRACE_MS);
      await rm(folderOf(serviceId), { recursive: true, force: true });
    },
    /** Ends every server; the next process starts them again. */
    async stopAll(): Promise<void> {
      stopping = true;
      clearInterval(watching);
      const deadline = Date.now() + GRACE_MS;
      await Promise.all(
        [...servers].map(async ([serviceId, record]) => {
          await endProcesses(record, folderOf(serviceId), () => deadline);
          note(serviceId, servers.get(serviceId) ?? record, 0, Date.now());
        }),
      );
      alive?.stop();
    },
  };
}

function runs(record: Record): boolean {
  return record.usage.at(-1)?.replicas === 1;
}

function describe(serviceId: string, record: Record | undefined): RedisStatus | undefined {
  return record && { serviceId, running: runs(record), size: record.size, usage: record.usage };
}

function configPath(folder: string): string {
  return join(folder, "redis.conf");
}

function configText(folder: string, port: number, { password, size }: RedisWanted): string {
  const data = join(folder, "data").replace(/[\\"]/g, "\\$&");
  return [
    "bind 127.0.0.1",
    `port ${port}`,
    `requirepass ${password}`,
    `dir "${data}"`,
    "daemonize no",
    "appendonly yes",
    'save ""',
    'logfile ""',
    `maxmemory ${MEBIBYTES[size]}mb`,
    "maxmemory-policy noeviction",
    "",
  ].join("\n");
}

async function choosePort(wanted: number | undefined): Promise<number> {
  return wanted !== undefined && (await isFree(wanted)) ? wanted : findFreePort();
}

function answers(port: number, password: string): Promise<boolean> {
  return sendCommands(port, [["AUTH", password], ["PING"]]).then(
    () => true,
    () => false,
  );
}

/** Written beside and renamed, for nobody else to read. */
function writeWhole(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function readRecord(folder: string): Record | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, "state.json"), "utf8"));
  } catch {
    rmSync(join(folder, "state.json"), { force: true });
    return undefined;
  }
}
