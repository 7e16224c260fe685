import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "../../../../kit/log.ts";
import type { ProcessRef } from "../../../shared/process-tree.ts";
import { replaceFile } from "../../../shared/replace-file.ts";
import type { ServiceSize } from "../../../terms/services.ts";
import type { UsageChange } from "../../../terms/usage-change.ts";
import { appendUsage } from "../../../usage/journal.ts";

/** What outlives the deployer's process, besides the server's own files. Holds no secret. */
export type RedisRecord = ProcessRef & {
  port: number;
  size: ServiceSize;
  usage: UsageChange[];
  /** How often it ended by itself. */
  restarts?: number;
};

/** The records of the servers, in memory and in `state.json` of each server's folder. */
export function createRedisRecords(folderOf: (serviceId: string) => string, log: Logger) {
  const records = new Map<string, RedisRecord>();
  /** Those of which the disk has an older record. */
  const unsaved = new Set<string>();
  const pathOf = (serviceId: string) => join(folderOf(serviceId), "state.json");

  function save(serviceId: string, record: RedisRecord): void {
    records.set(serviceId, record);
    try {
      replaceFile(pathOf(serviceId), JSON.stringify(record));
      unsaved.delete(serviceId);
    } catch (error) {
      // A full disk stops no server; without the record the next process starts the server anew.
      if (!unsaved.has(serviceId))
        log.warn({ err: error, serviceId }, "could not write the state of a redis server; retrying");
      unsaved.add(serviceId);
    }
  }

  return {
    save,
    /** Returns the record on disk, and removes one that cannot be read. */
    read(serviceId: string): RedisRecord | undefined {
      try {
        return JSON.parse(readFileSync(pathOf(serviceId), "utf8"));
      } catch {
        rmSync(pathOf(serviceId), { force: true });
        return undefined;
      }
    },
    /** Takes a record that was read, as it is. */
    adopt: (serviceId: string, record: RedisRecord) => void records.set(serviceId, record),
    /** Records that the server serves, or no longer does, since `at`. */
    setRunning(serviceId: string, record: RedisRecord, running: boolean, at: number): void {
      save(serviceId, { ...record, usage: appendUsage(record.usage, { at, replicas: running ? 1 : 0 }) });
    },
    /** Writes the record if the disk has an older one. */
    saveAgain(serviceId: string, record: RedisRecord): void {
      if (unsaved.has(serviceId)) save(serviceId, record);
    },
    remove(serviceId: string): void {
      records.delete(serviceId);
      unsaved.delete(serviceId);
    },
    get: (serviceId: string) => records.get(serviceId),
    list: () => [...records],
  };
}

/** Returns whether a server serves, according to its record. */
export function isRunning(record: RedisRecord): boolean {
  return record.usage.at(-1)?.replicas === 1;
}
