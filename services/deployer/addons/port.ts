import type { LogLine, LogPage, LogQuery, Runtime, RuntimeState } from "../runtime/port.ts";
import type { FillingVolume, Measurable, Measurement } from "../terms/measurement.ts";
import type { AddonEngine, AddonType, ServiceSize } from "../terms/services.ts";
import type { UsageChange } from "../terms/usage-change.ts";

/**
 * The port through which the deployer runs managed addons. On one machine a postgres addon is a database in a shared
 * server and a redis addon a process; on a cluster each is a StatefulSet with a volume.
 */

/** Identifies an addon. */
export type AddonRef = {
  serviceId: string;
  type: AddonType;
  /** What it was made with; absent for the usual engine. */
  engine?: AddonEngine;
  /** Absent for one whose service no longer exists: `list` returned it, so the adapter knows where it is. */
  environmentId?: string;
};

/** An addon whose environment is known. */
export type PlacedAddon = AddonRef & { environmentId: string };

/** The desired state of an addon. */
export type Addon = AddonRef & {
  accountId: string;
  projectId: string;
  environmentId: string;
  /** The service's name or, where a renamed service's objects are called so, another one; unique in its environment. */
  name: string;
  size: ServiceSize;
  /** How many servers it has, one of which takes writes; one unless given. */
  replicas?: number;
  /** The version that its server is made with; the installation's unless given. */
  version?: string;
  /** How large its volumes are at least, in GiB; the installation's size unless given. */
  storageGib?: number;
  /** The port it had before, where ports differ between addons. */
  port?: number;
  /** Grows with each password, so that a process that was suspended cannot bring an older one back. */
  generation: number;
};

export type AddonAddress = { host: string; port: number };

/**
 * `ready`: it accepts this password and no other; `port` where it has to be remembered. `waiting`: progress is under way,
 * and `watch` reports it. `failed`: it needs somebody's help; the deployer retries every 15 s. `message` is a sentence for
 * users.
 */
export type AddonOutcome =
  | { state: "ready"; port?: number }
  | { state: "waiting"; message: string }
  | { state: "failed"; message: string };

/** The observed state of an addon's own server. */
export type AddonStatus = AddonRef & {
  /** It serves, and nothing that belongs to it is missing. */
  running: boolean;
  size: ServiceSize;
  /** How many servers it is to have; absent where it cannot have more than one. */
  replicas?: number;
  /** How large its volumes were asked to be at least, in GiB. */
  storageGib?: number;
  /** The server that takes writes, where another one may take over. */
  primary?: string;
  /** The next `ensure` has something to do with it, as to move it to a newer patch release. */
  outdated?: boolean;
  /** As in `RuntimeStatus`. */
  usage: UsageChange[];
  /** Why it does not run, where more is known than that it exited. */
  problem?: { state: Exclude<RuntimeState, "running" | "stopped">; message: string };
};

/**
 * A backup in the object store; `foreign`: of another addon or server, whose role may not be here; `uploaded`: its user wrote
 * every byte of it.
 */
export type StoredBackup = { key: string; foreign: boolean; uploaded: boolean };

/** How pg_restore reads a foreign backup: all is owned by who restores it. */
export const WITHOUT_ROLES = ["--no-owner", "--no-privileges"];

/** Which moments of an addon's past a backup may have, or why none, as a sentence. `from`: the oldest; there may be none yet. */
export type PointInTime = { reason: string } | { from?: Date; failure?: string };

export type AddonBackups = {
  /** Returns why addons of a type cannot be backed up here, as a sentence; undefined where they can. Does not throw. */
  unsupported(type: AddonType): Promise<string | undefined>;
  /** Returns why such addons have no archive of their past, as a sentence; undefined where they have. */
  noArchive(addon: Pick<AddonRef, "type" | "engine">): string | undefined;
  /** Returns which moments the archive of an addon has. `failure`: why it takes nothing new at present. */
  pointInTime(addon: PlacedAddon): Promise<PointInTime>;
  /**
   * Writes a backup of an addon to the object store under this key, and returns the version of its server. With `at`, it has
   * the data of that moment, from the archive. Nothing is there when it throws, `BackupRefusal` if another attempt would not
   * help.
   */
  make(
    addon: Addon,
    password: string,
    key: string,
    signal: AbortSignal,
    at?: Date,
  ): Promise<{ version: string }>;
  /**
   * Replaces all data of an addon by that of a backup. Can be repeated, and is to be repeated after a
   * crash. The addon has its data of before when it throws, `BackupRefusal` if another attempt would not help.
   */
  restore(addon: Addon, password: string, backup: StoredBackup, signal: AbortSignal): Promise<void>;
  /**
   * Restores a backup of an addon to the side, where no app reaches it, reads all tables or keys, and removes it again.
   * Returns how many rows or keys there are. Throws a `BackupRefusal` if another attempt would not help. What an attempt
   * left that was killed is removed first.
   */
  prove(addon: Addon, key: string, signal: AbortSignal): Promise<{ counted: number }>;
  /** Removes what is left of a proof, also of an addon that is gone. Idempotent. */
  removeProof(addon: PlacedAddon): Promise<void>;
};

/** Poolers of connections beside PostgreSQL addons, which know of their passwords what the servers know. */
export type AddonPoolers = {
  /**
   * Brings the pooler of an addon to its desired state, with this password. As `AddonServers.ensure`, but `waiting` reports
   * nothing by itself. Its server has to accept the password already.
   */
  ensure(addon: Addon, password: string): Promise<AddonOutcome>;
  /** Returns where apps of its environment reach it. */
  address(addon: Pick<Addon, "serviceId" | "environmentId">): AddonAddress;
  /** Removes it; resolves when nothing is left. Idempotent. */
  remove(addon: PlacedAddon): Promise<void>;
};

/** What users may choose of an addon that is to be made, or why they cannot, as a sentence. */
export type AddonChoice = {
  versions: string[];
  versionsReason?: string;
  storageReason?: string;
  storageGrowsReason?: string;
  poolerReason?: string;
  /** Why a redis addon has a single server; of PostgreSQL that depends on its engine. */
  standbyReason?: string;
};

/** What an addon's server is, as far as it is known. */
export type AddonServer = { version?: string; storageBytes?: number };

export type AddonLogQuery = LogQuery & { addon: Pick<AddonRef, "type" | "engine"> };

/** What is read of addons whatever they run on. Any process can do it. */
export type AddonReaders = {
  /** Returns why addons of a type have no log here, as a sentence for users; undefined where they have. */
  unlogged(type: AddonType): string | undefined;
  /** As those of `Runtime`, of what the servers of an addon write. Lines have version 0. */
  logs(query: AddonLogQuery & { limit: number; cursor?: string }): Promise<LogPage>;
  followLogs(
    query: AddonLogQuery & { tail?: number; after?: string },
    signal: AbortSignal,
  ): AsyncIterable<LogLine>;
  /** Returns why something may not be measured of addons of a type here, as sentences for users. */
  unmeasured(type: AddonType): Partial<Record<Measurable, string>>;
  /** As that of `Runtime`. */
  readSeries?: Runtime["readSeries"];
  /**
   * Returns the volumes of addons of which at least this share is used, the fullest first. Absent where nothing says how full
   * volumes are.
   */
  listFilling?(share: number): Promise<FillingVolume[]>;
};

export type AddonServers = AddonReaders & {
  readonly backups: AddonBackups;
  /** Absent where addons have none. */
  readonly poolers?: AddonPoolers;
  /** Returns what users may choose of an addon. `versions`: the newest first. */
  choiceOf(type: AddonType): AddonChoice;
  /** Returns what its server is. */
  describe(addon: PlacedAddon): Promise<AddonServer>;
  /** Returns why its volumes cannot grow to this size, as a sentence; undefined where they can, or are as large. */
  cannotGrow(addon: PlacedAddon, storageGib: number): Promise<string | undefined>;
  /**
   * The types whose addons have a server of their own, which this adapter watches. The others share a server; once ready,
   * they count as running while they exist.
   */
  readonly ownServer: readonly AddonType[];
  /** Returns what a PostgreSQL addon is made with from now on; undefined for the usual engine. */
  postgresEngine(): Promise<AddonEngine | undefined>;
  /**
   * Brings the addon to its desired state, with this password. Idempotent, and safe while another process does the same.
   * Throws when the outcome is unknown, for instance because a server does not answer.
   */
  ensure(addon: Addon, password: string): Promise<AddonOutcome>;
  /**
   * Where the statements of all PostgreSQL addons are collected: the URL of an administrator who can become the role of each.
   * Unless given, each server collects its own, in its database `postgres`.
   */
  readonly collectorUrl?: string;
  /** Returns where apps of its environment reach a ready addon. */
  address(addon: Pick<Addon, "type" | "environmentId" | "name" | "port">): AddonAddress;
  /** Removes it with its data; resolves when nothing is left. Idempotent. */
  remove(addon: AddonRef): Promise<void>;
  /** Returns undefined when it has no server. Only for the types of `ownServer`. */
  status(addon: AddonRef): Promise<AddonStatus | undefined>;
  /** Returns all servers this process knows, including those whose service no longer exists (`remove` them). */
  list(): Promise<AddonStatus[]>;
  /** Returns what all addons use now. */
  measure(): Promise<Measurement[]>;
  /** Calls `listener` when something about an addon changed; for speed only, `status` is the truth. */
  watch(listener: (serviceId: string) => void): void;
};
