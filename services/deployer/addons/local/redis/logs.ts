import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "../../../../kit/log.ts";
import { type Collector, collectOutput, outputPath } from "../../../runtime/local/logs/log-collector.ts";
import { instanceName, type LogStore, openLogStore } from "../../../runtime/local/logs/log-store.ts";
import type { LogPage, LogQuery } from "../../../runtime/port.ts";
import type { ProcessRef } from "../../../shared/process-tree.ts";

/** The files in a server's folder to which it writes its lines. */
export const outputsOf = (folder: string) => [outputPath(folder, "stdout"), outputPath(folder, "stderr")];

/** The logs of redis servers: what each writes to its output files, with the time at which it did. */
export function createRedisLogs(folderOf: (serviceId: string) => string, log: Logger) {
  const logs = new Map<string, { store: LogStore; collector?: Collector }>();

  function open(serviceId: string) {
    const opened = logs.get(serviceId) ?? { store: openLogStore(join(folderOf(serviceId), "log")) };
    logs.set(serviceId, opened);
    return opened;
  }

  /** Collects what a server has written up to its end. */
  function end(serviceId: string): void {
    const opened = logs.get(serviceId);
    opened?.collector?.collect(true);
    opened?.collector?.close();
    if (opened) opened.collector = undefined;
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
      for (const path of outputsOf(folderOf(serviceId))) writeFileSync(path, "", { mode: 0o600 });
    },
    /**
     * Collects what a server writes, and what it has written since the process ended that collected it before. A full disk
     * stops no server: without room for the log it has none until the next start.
     */
    async collect(serviceId: string, server: ProcessRef): Promise<void> {
      try {
        const [opened, instance] = [open(serviceId), instanceOf(server)];
        const collected = await opened.store.collectedOffsets(instance);
        opened.collector = collectOutput(folderOf(serviceId), instance, opened.store, collected);
      } catch (err) {
        log.warn({ err, serviceId }, "could not open the log of a redis server");
      }
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
