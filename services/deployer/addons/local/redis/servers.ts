import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { createKeyedMutex } from "../../../../kit/concurrency/keyed-mutex.ts";
import type { Logger } from "../../../../kit/log.ts";
import { isFree } from "../../../../kit/process/free-port.ts";
import type { Walls } from "../../../../kit/process/walls.ts";
import { type Loop, startLoop } from "../../../../kit/tasks/loop.ts";
import { chooseAppPort } from "../../../runtime/local/app-port.ts";
import { endedUnwatched, startAliveMark } from "../../../shared/alive-mark.ts";
import {
  endProcesses,
  endProcessesOutside,
  isAlive,
  type ProcessRef,
  startedOf,
} from "../../../shared/process-tree.ts";
import { replaceFile } from "../../../shared/replace-file.ts";
import { BackupRefusal } from "../../../terms/backup-refusal.ts";
import type { ServiceSize } from "../../../terms/services.ts";
import type { UsageChange } from "../../../terms/usage-change.ts";
import { RedisRefusal, sendCommands } from "../../redis-client.ts";
import { CANNOT_READ, readSnapshot, type Snapshot } from "../../redis-snapshot.ts";
import { adjustments, configuredPassword, type RedisSettings, redisConfig } from "./config.ts";
import { dataOf, forgetReceived, keep, putBack, receive, replaceData, thenForget } from "./data.ts";
import { createRedisLogs, outputsOf } from "./logs.ts";
import { measureRedis } from "./measure.ts";
import { createRedisRecords, isRunning, type RedisRecord } from "./records.ts";
import { sightOf } from "./sight.ts";

type RedisStatus = { serviceId: string; running: boolean; size: ServiceSize; usage: UsageChange[] };

export type RedisServers = ReturnType<typeof createRedisServers>;

const WATCH_MS = 200;
/** A server with much data needs long to read it. */
const START_MS = 30_000;
const GRACE_MS = 5_000;
/** What redis-server and its relatives write once they listen. */
const READY = "Ready to accept connections";

/**
 * The servers of redis addons: one process group each, with all its files in a folder of its own. They outlive this
 * process, and the next one adopts them. The caller restarts a server that exited. `path` returns their PATH. They are behind
 * walls: clients may tell older ones where to write, and which code to load.
 */
export function createRedisServers(given: {
  folder: string;
  log: Logger;
  path: () => string | undefined;
  walls: Walls;
}) {
  const { log, walls } = given;
  let changed = (_serviceId: string) => {};
  // Processes are identified by these paths.
  const root = resolve(given.folder);
  const folderOf = (serviceId: string) => join(root, serviceId);
  const records = createRedisRecords(folderOf, log);
  const logs = createRedisLogs(folderOf, log);
  let alive: ReturnType<typeof startAliveMark> | undefined;
  let watching: Loop | undefined;
  let stopping = false;
  /** What starts and ends the server of an addon. */
  const alone = createKeyedMutex();

  function watchServers(): void {
    for (const [serviceId, record] of records.list()) {
      records.saveAgain(serviceId, record);
      if (!isRunning(record) || isAlive(record)) continue;
      log.warn({ serviceId }, "a redis server exited");
      const restarts = (record.restarts ?? 0) + 1;
      records.setRunning(serviceId, { ...record, restarts }, false, Date.now());
      changed(serviceId);
    }
  }

  /** Adopts a server that an earlier process started, or ends what is left of it. */
  async function adopt(serviceId: string): Promise<void> {
    const folder = folderOf(serviceId);
    await forgetReceived(folder);
    const record = records.read(serviceId);
    if (record && isAlive(record)) {
      records.adopt(serviceId, record);
      await logs.collect(serviceId, record);
      log.info({ serviceId }, "adopted a running redis server");
      return;
    }
    await end(undefined, folder);
    if (record) {
      const endedAt = endedUnwatched(alive?.before, outputsOf(folder));
      records.setRunning(serviceId, record, false, endedAt);
      // After the times of its outputs were read: what is missing of them is made.
      await logs.collect(serviceId, record);
    }
  }

  /** Starts the server and returns its port once it accepts its password. */
  async function launch(serviceId: string, program: string, wanted: RedisSettings): Promise<number> {
    const folder = folderOf(serviceId);
    const before = records.get(serviceId);
    // First: what is left of it may have its port.
    await end(undefined, folder);
    const port = await choosePort(before?.port ?? wanted.port);
    for (const made of [dataOf(folder), tmpOf(folder)]) mkdirSync(made, { recursive: true, mode: 0o700 });
    replaceFile(configPath(folder), redisConfig(folder, port, wanted));
    logs.clear(serviceId);
    const outputs = outputsOf(folder).map((path) => openSync(path, "a", 0o600));
    const own = { cwd: dataOf(folder), read: [folder], write: [dataOf(folder)], tmp: tmpOf(folder) };
    const [file, ...args] = walls([program, configPath(folder)], sightOf(program, own));
    const child = spawn(file!, args, {
      cwd: dataOf(folder),
      env: { PATH: given.path(), HOME: folder, TMPDIR: folder, LANG: "C.UTF-8" },
      detached: true,
      stdio: ["ignore", ...outputs],
    });
    for (const output of outputs) closeSync(output);
    child.on("error", (error) => log.warn({ err: error, serviceId }, "a redis server could not be started"));
    child.unref();
    const ref = { pid: child.pid ?? 0, started: startedOf(child.pid ?? 0) ?? "" };
    const { usage = [], restarts } = before ?? {};
    const record = { ...ref, port, size: wanted.size, usage, restarts };
    records.save(serviceId, record);
    await logs.collect(serviceId, ref);
    for (const deadline = Date.now() + START_MS; ; await delay(20)) {
      // Before it says so another program may have the port, and must not get the password.
      const listens = isAlive(ref) && readText(outputsOf(folder)[0]!).includes(READY);
      if (listens && (await accepts(port, wanted.password))) break;
      if (stopping || !isAlive(ref) || Date.now() > deadline) {
        await end(ref, folder);
        throw new Error("the redis server did not start; its log says why");
      }
    }
    records.setRunning(serviceId, record, true, Date.now());
    return port;
  }

  /** Changes password and memory of a running server; returns false when only a restart can. */
  async function adjust(serviceId: string, record: RedisRecord, wanted: RedisSettings): Promise<boolean> {
    const path = configPath(folderOf(serviceId));
    const config = redisConfig(folderOf(serviceId), record.port, wanted);
    const current = readText(path);
    if (current === config && (await accepts(record.port, wanted.password))) return true;
    // It has the new password already when an earlier attempt was killed half-way.
    for (const password of [wanted.password, configuredPassword(current) ?? ""]) {
      const done = await sendCommands(record.port, [["AUTH", password], ...adjustments(wanted)]).then(
        () => true,
        (error) => {
          if (error instanceof RedisRefusal) return false;
          throw error;
        },
      );
      if (!done) continue;
      replaceFile(path, config);
      records.save(serviceId, { ...record, size: wanted.size });
      return true;
    }
    return false;
  }

  async function bringUp(serviceId: string, program: string, wanted: RedisSettings): Promise<number> {
    const record = records.get(serviceId);
    if (record && isAlive(record)) {
      if (await adjust(serviceId, record, wanted)) {
        const adjusted = records.get(serviceId)!;
        if (!isRunning(adjusted)) records.setRunning(serviceId, adjusted, true, Date.now());
        return record.port;
      }
      await stop(serviceId);
    }
    putBack(folderOf(serviceId));
    return launch(serviceId, program, wanted);
  }

  async function stop(serviceId: string): Promise<void> {
    const record = records.get(serviceId);
    await end(record, folderOf(serviceId));
    if (record) records.setRunning(serviceId, record, false, Date.now());
  }

  async function restore(serviceId: string, program: string, wanted: RedisSettings): Promise<void> {
    const folder = folderOf(serviceId);
    if (!records.get(serviceId)) throw new Error("the redis server was removed");
    await stop(serviceId);
    replaceData(folder);
    try {
      await launch(serviceId, program, wanted);
    } catch (error) {
      if (stopping) throw error;
      putBack(folder);
      await launch(serviceId, program, wanted);
      throw new BackupRefusal(CANNOT_READ);
    }
    keep(folder);
  }

  return {
    /** Adopts the servers that an earlier process left running, and ends processes that belong to no server. */
    async start(): Promise<void> {
      alive = startAliveMark(root);
      const found = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
      await Promise.all(found.map(({ name }) => adopt(name)));
      await endProcessesOutside(root, new Set(found.map(({ name }) => name)), GRACE_MS);
      watching = startLoop(async () => {
        watchServers();
        return WATCH_MS;
      }, WATCH_MS);
    },
    /**
     * Brings a server to the desired state: starts it, or changes it while it runs. Returns its port once it answers;
     * the port stays the same unless another program has taken it. Idempotent.
     */
    ensure: (serviceId: string, program: string, wanted: RedisSettings): Promise<number> =>
      alone.run(serviceId, () => bringUp(serviceId, program, wanted)),
    /** Returns a snapshot of the data of a running server, as an RDB file. */
    async snapshot(serviceId: string, signal: AbortSignal): Promise<Snapshot> {
      const record = records.get(serviceId);
      if (!record || !isRunning(record)) throw new Error("the redis server does not run");
      const folder = folderOf(serviceId);
      const password = configuredPassword(readText(configPath(folder))) ?? "";
      const { version, content } = await readSnapshot(
        { host: "127.0.0.1", port: record.port },
        password,
        signal,
      );
      return { version, content: thenForget(folder, content) };
    },
    /**
     * Replaces all data of a server by an RDB file. If the server cannot read it, it runs with its data of before, and
     * `BackupRefusal` is thrown. After a crash, the server starts with its data of before, unless this is repeated.
     */
    async restore(
      serviceId: string,
      program: string,
      wanted: RedisSettings,
      content: Readable,
    ): Promise<void> {
      if (!records.get(serviceId)) throw new Error("the redis server was removed");
      // As a whole first: meanwhile the server runs.
      await receive(folderOf(serviceId), content);
      await alone.run(serviceId, () => restore(serviceId, program, wanted));
    },
    /** Calls `listener` when a server exited by itself; for speed, `status` is the truth. */
    watch(listener: (serviceId: string) => void): void {
      changed = listener;
    },
    status(serviceId: string): RedisStatus | undefined {
      const record = records.get(serviceId);
      return record && toStatus(serviceId, record);
    },
    logs: logs.page,
    followLogs: logs.follow,
    measure: () =>
      measureRedis(
        records.list().map(([serviceId, record]) => ({ serviceId, folder: folderOf(serviceId), record })),
      ),
    list: (): RedisStatus[] => records.list().map(([serviceId, record]) => toStatus(serviceId, record)),
    /** Ends the server and removes its data. Idempotent. */
    remove: (serviceId: string): Promise<void> =>
      alone.run(serviceId, async () => {
        const record = records.get(serviceId);
        records.remove(serviceId);
        await end(record, folderOf(serviceId));
        logs.close(serviceId);
        await rm(folderOf(serviceId), { recursive: true, force: true });
      }),
    /** Ends every server; the next process starts them again. */
    async stopAll(): Promise<void> {
      stopping = true;
      await watching?.stop();
      const deadline = Date.now() + GRACE_MS;
      await Promise.all(
        records.list().map(async ([serviceId, record]) => {
          await endProcesses(record, folderOf(serviceId), () => deadline);
          records.setRunning(serviceId, records.get(serviceId) ?? record, false, Date.now());
        }),
      );
      logs.closeAll();
      alive?.stop();
    },
  };
}

/** Ends the server's processes and all that were started for its folder. */
function end(server: ProcessRef | undefined, folder: string): Promise<void> {
  const deadline = Date.now() + GRACE_MS;
  return endProcesses(server, folder, () => deadline);
}

function toStatus(serviceId: string, record: RedisRecord): RedisStatus {
  return { serviceId, running: isRunning(record), size: record.size, usage: record.usage };
}

const tmpOf = (folder: string) => join(folder, "tmp");

function configPath(folder: string): string {
  return join(folder, "redis.conf");
}

async function choosePort(wanted: number | undefined): Promise<number> {
  return wanted !== undefined && (await isFree(wanted)) ? wanted : chooseAppPort();
}

function accepts(port: number, password: string): Promise<boolean> {
  return sendCommands(port, [["AUTH", password], ["PING"]]).then(
    () => true,
    () => false,
  );
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
