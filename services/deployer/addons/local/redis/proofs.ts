import { spawn } from "node:child_process";
import {
  closeSync,
  createWriteStream,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { Walls } from "../../../../kit/process/walls.ts";
import {
  endProcesses,
  endProcessesOutside,
  type ProcessRef,
  startedOf,
} from "../../../shared/process-tree.ts";
import { replaceFile } from "../../../shared/replace-file.ts";
import { BackupRefusal } from "../../../terms/backup-refusal.ts";
import { CANNOT_READ } from "../../redis-snapshot.ts";
import { sightOf } from "./sight.ts";

export type RedisProofs = ReturnType<typeof createRedisProofs>;

const POLL_MS = 50;
const GRACE_MS = 2_000;

/** No network: it listens at a socket in its folder, which only this user may enter. */
const CONFIG = `port 0
unixsocket socket
dbfilename received.rdb
appendonly no
save ""
logfile ""
daemonize no
`;

/**
 * Proofs of RDB files: each is read by a server of its own, with all its files in a folder of its own. Only one process
 * has the folder of all of them.
 */
export function createRedisProofs(given: { folder: string; path: () => string | undefined; walls: Walls }) {
  const { folder, path, walls } = given;
  // Processes are identified by these paths.
  const root = resolve(folder);
  const folderOf = (serviceId: string) => join(root, serviceId);

  /** Ends the server of a proof, if there is one, and removes its files. */
  async function remove(serviceId: string): Promise<void> {
    const own = folderOf(serviceId);
    const deadline = Date.now() + GRACE_MS;
    await endProcesses(recorded(own), own, () => deadline);
    await rm(own, { recursive: true, force: true });
  }

  /** Waits until a server has read its file, and returns how many keys that has. */
  async function untilRead(own: string, program: string, signal: AbortSignal): Promise<number> {
    const output = openSync(join(own, "output"), "w", 0o600);
    const env = { PATH: path(), HOME: own, TMPDIR: own, LANG: "C.UTF-8" };
    const sight = sightOf(program, { cwd: own, write: [own], tmp: join(own, "tmp") });
    const [file, ...args] = walls([program, "redis.conf"], sight);
    const child = spawn(file!, args, {
      ...{ cwd: own, env, detached: true },
      stdio: ["ignore", output, output],
    });
    closeSync(output);
    let failure: Error | undefined;
    child.on("error", (error) => {
      failure = error;
    });
    child.unref();
    const pid = child.pid ?? 0;
    replaceFile(join(own, "process.json"), JSON.stringify({ pid, started: startedOf(pid) ?? "" }));
    for (;;) {
      const text = readFileSync(join(own, "output"), "utf8");
      if (/ready to accept connections/i.test(text)) return Number(/keys loaded: (\d+)/.exec(text)?.[1] ?? 0);
      if (failure) throw failure;
      if (child.signalCode !== null)
        throw new Error(`the server of a proof was ended by ${child.signalCode}`);
      // Behind walls, a signal is told as shells tell it.
      if (child.exitCode !== null && child.exitCode > 128)
        throw new Error(`the server of a proof ended with ${child.exitCode}`);
      if (child.exitCode !== null) throw new BackupRefusal(CANNOT_READ);
      await delay(POLL_MS, undefined, { signal });
    }
  }

  return {
    remove,
    /** Removes what earlier processes left. */
    async removeAll(): Promise<void> {
      mkdirSync(root, { recursive: true, mode: 0o700 });
      await Promise.all(readdirSync(root).map(remove));
      await endProcessesOutside(root, new Set(), GRACE_MS);
    },
    async prove(
      serviceId: string,
      program: string,
      content: Readable,
      signal: AbortSignal,
    ): Promise<{ counted: number }> {
      const own = folderOf(serviceId);
      await remove(serviceId);
      try {
        mkdirSync(join(own, "tmp"), { recursive: true, mode: 0o700 });
        writeFileSync(join(own, "redis.conf"), CONFIG, { mode: 0o600 });
        await pipeline(content, createWriteStream(join(own, "received.rdb"), { mode: 0o600 }), { signal });
        return { counted: await untilRead(own, program, signal) };
      } finally {
        await remove(serviceId);
      }
    },
  };
}

function recorded(own: string): ProcessRef | undefined {
  try {
    return JSON.parse(readFileSync(join(own, "process.json"), "utf8"));
  } catch {
    return undefined;
  }
}
