import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ProcessRef } from "../../../../shared/process-tree.ts";
import { replaceFile } from "../../../../shared/replace-file.ts";
import type { UsageChange } from "../../../../terms/usage-change.ts";
import type { Release, ServedHost } from "../../../port.ts";
import type { Sealer } from "./state-seal.ts";

/** One process of a release. */
export type InstanceRecord = ProcessRef & {
  /** The name of its folder, and its mark in the log. */
  name: string;
  generation: number;
  replica: number;
  port: number;
  /** The address on which it listens, once it has answered. */
  host?: string;
  /** Time in ms at which it became available. */
  availableAt?: number;
};

/** A release and its rollout; each roll-over of a service is one generation. */
export type GenerationRecord = {
  generation: number;
  release: Release;
  appliedAt: number;
  /** Time in ms at which all its replicas first were available. */
  availableAt?: number;
  restarts: number;
};

/** What outlives the deployer's process. `live` differs from `desired` while a roll-over is under way. */
export type ServiceRecord = {
  serviceId: string;
  label: string;
  desired: GenerationRecord;
  live?: GenerationRecord;
  instances: InstanceRecord[];
  usage?: UsageChange[];
  hosts?: ServedHost[];
  /** Its removal has begun and must be completed. */
  removed?: true;
};

const FILE_NAME = "state.json";

export function writeServiceRecord(folder: string, record: ServiceRecord, sealer: Sealer): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // The whole release is sealed: a start command may hold a secret too.
  const seal = (one: GenerationRecord) => ({ ...one, release: sealer.seal(one.release) });
  const sealed = { ...record, desired: seal(record.desired), live: record.live && seal(record.live) };
  replaceFile(join(folder, FILE_NAME), JSON.stringify(sealed));
}

/** Returns undefined when there is none, or when this secret cannot open it: then the deployer applies it again. */
export function readServiceRecord(folder: string, sealer: Sealer): ServiceRecord | undefined {
  try {
    const record = JSON.parse(readFileSync(join(folder, FILE_NAME), "utf8"));
    for (const one of [record.desired, record.live]) {
      if (one) one.release = sealer.open(one.release);
      if (one && one.release === undefined) return undefined;
    }
    return record;
  } catch {
    return undefined;
  }
}

export function listServiceFolders(root: string): string[] {
  mkdirSync(root, { recursive: true, mode: 0o700 });
  return readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(root, entry.name));
}
