import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Collector, collectOutput, outputPath } from "../../runtime/local/logs/log-collector.ts";
import { instanceName, type LogStore, openLogStore } from "../../runtime/local/logs/log-store.ts";
import type { LogPage, LogQuery } from "../../runtime/port.ts";
import type { ProcessRef } from "../../shared/process-tree.ts";

const START = { stdout: 0, stderr: 0 };

/** The files in a server's folder to which it writes its lines. */
export const outputsOf = (folder: string) => [outputPath(folder, "stdout"), outputPath(folder, "stderr")];

/** The logs of redis servers: what each writes to its output files, with the time at which it did. */
export function createRedisLogs(folderOf: (serviceId: string) => string) {
  const logs = new Map<string, { store: LogStore; collector?: Collector }>();

  function open(serviceId: string) {
    const log = logs.get(serviceId) ?? { store: openLogStore(join(folderOf(serviceId), "log")) };
    logs.set(serviceId, log);
    return log;
  }

  /** Collects what a server has written up to its end. */
  function end(serviceId: string): void {
    const log = logs.get(serviceId);
    log?.collector?.collect(true);
    log?.collector?.close();
    if (log) log.collector = undefined;
  }

  function close(serviceId: string): void {
    end(serviceId);
    logs.get(serviceId)?.store.close();
    logs.delete(serviceId);
  }

  return {
    /** Makes the outputs empty, for the next server. The one before has ended. */
    clear(serviceId: string): void {
      end(serviceId);
      for (const path of outputsOf(folderOf(serviceId))) rmSync(path, { force: true });
    },
    /** Collects what a server writes that began with empty outputs. */
    begin(serviceId: string, server: ProcessRef): void {
      const log = open(serviceId);
      log.collector = collectOutput(folderOf(serviceId), instanceOf(server), log.store, START);
    },
    /** Collects what a server has written, and writes, since the process ended that collected it before. */
    async resume(serviceId: string, server: ProcessRef): Promise<void> {
      const [log, instance] = [open(serviceId), instanceOf(server)];
      const collected = await log.store.collectedOffsets(instance);
      log.collector = collectOutput(folderOf(serviceId), instance, log.store, collected);
    },
    close,
    closeAll(): void {
      for (const serviceId of [...logs.keys()]) close(serviceId);
    },
    async page(query: LogQuery & { limit: number; cursor?: string }): Promise<LogPage> {
      const store = logs.get(query.serviceId)?.store;
      return store ? store.page(query, query.limit, query.cursor) : { lines: [] };
    },
    async *follow(query: LogQuery & { tail?: number; after?: string }, signal: AbortSignal) {
      const store = logs.get(query.serviceId)?.store;
      if (store) yield* store.follow(query, signal);
    },
  };
}

/** An addon has no versions, and here one server. */
const instanceOf = ({ pid, started }: ProcessRef) => instanceName(0, 0, `${pid} ${started}`);
