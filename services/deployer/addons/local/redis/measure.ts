import { readFileSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { measureSessions } from "../../../shared/process-tree.ts";
import type { Measurement } from "../../../terms/measurement.ts";
import { dataOf } from "./data.ts";
import { isRunning, type RedisRecord } from "./records.ts";

const ESTABLISHED = "01";

/** Returns what servers use. CPU, memory and connections are those of Linux. */
export async function measureRedis(
  servers: { serviceId: string; folder: string; record: RedisRecord }[],
): Promise<Measurement[]> {
  const onLinux = process.platform === "linux";
  const used = measureSessions(servers.map(({ record }) => record));
  const accepted = onLinux && servers.length > 0 ? connectionsByPort() : undefined;
  return Promise.all(
    servers.map(async ({ serviceId, folder, record }) => {
      const { pid, started, port, usage, restarts = 0 } = record;
      const use = used.get(pid);
      const since = usage[0]?.at ?? Date.now();
      return {
        ...{ serviceId, replicas: isRunning(record) ? 1 : 0 },
        ...(accepted && { memory: use?.memory ?? 0, connections: accepted.get(port) ?? 0 }),
        storageUsed: await sizeOf(dataOf(folder)),
        counters: [
          { source: "restarts", since, restarts },
          ...(use ? [{ source: `${pid} ${started}`, since: use.startedAt, cpuMs: use.cpuMs }] : []),
        ],
      };
    }),
  );
}

/** Returns how many connections this machine's ports have accepted: the other end of each has another port. */
function connectionsByPort(): Map<number, number> {
  const counts = new Map<number, number>();
  for (const line of readFileSync("/proc/net/tcp", "latin1").split("\n").slice(1)) {
    const [, local = "", , state] = line.trim().split(/ +/);
    if (state !== ESTABLISHED) continue;
    const port = Number.parseInt(local.slice(local.indexOf(":") + 1), 16);
    counts.set(port, (counts.get(port) ?? 0) + 1);
  }
  return counts;
}

/** Returns the bytes of all files in a folder. A file may be gone by the time that it is looked at. */
async function sizeOf(folder: string): Promise<number> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => []);
  const sizes = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) =>
      stat(join(parentPath, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    );
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
