import type { RuntimeState, ServiceSize, UsageChange } from "../runtime/port.ts";

/**
 * The port through which the deployer runs managed addons. On one machine a postgres addon is a database in a
 * server of others and a redis addon a process; on a cluster each is a StatefulSet with a volume.
 */

export const ADDON_TYPES = ["postgres", "redis"] as const;

export type AddonType = (typeof ADDON_TYPES)[number];

/** Which addon. */
export type AddonRef = {
  serviceId: string;
  type: AddonType;
  /** Absent for one that is no service any more: `list` told it, so the adapter knows where it is. */
  environmentId?: string;
};

/** Whose it is, and what it should be. */
export type Addon = AddonRef & {
  accountId: string;
  projectId: string;
  environmentId: string;
  /** The service's name, unique in its environment. */
  name: string;
  size: ServiceSize;
  /** The port it answered at before, where that is not always the same. */
  port?: number;
  /** Grows with each password: a process that stood still must not bring an older one back. */
  generation: number;
};

export type AddonAddress = { host: string; port: number };

/**
 * `ready`: it answers to this password and to no other; `port` where it has to be remembered.
 * `waiting`: it is on its way, and `watch` tells of it. `failed`: it does not come without somebody's help; it
 * is tried again now and then. `message` is a sentence for users.
 */
export type AddonOutcome =
  | { state: "ready"; port?: number }
  | { state: "waiting"; message: string }
  | { state: "failed"; message: string };

/** What is seen of an addon's own server. */
export type AddonStatus = AddonRef & {
  /** It answers, and has all it should have. */
  running: boolean;
  size: ServiceSize;
  /** As a runtime's. */
  usage: UsageChange[];
  /** Why it does not run, where more is known than that it has ended. */
  problem?: { state: Exclude<RuntimeState, "running" | "stopped">; message: string };
};

export type AddonServers = {
  /**
   * The types whose addons have a server of their own, which this adapter watches. Of the others it knows
   * nothing once they are ready: they live in a server of others, and count as running while they exist.
   */
  readonly ownServer: readonly AddonType[];
  /**
   * Brings the addon to what it should be, with this password. Each step can be repeated, and two processes
   * may do it at once. Throws when it cannot be told, for instance because a server does not answer.
   */
  ensure(addon: Addon, password: string): Promise<AddonOutcome>;
  /** Where apps of its environment reach a ready addon. */
  address(addon: Pick<Addon, "type" | "environmentId" | "name" | "port">): AddonAddress;
  /** Removes it with its data; resolves when nothing is left. Idempotent. */
  remove(addon: AddonRef): Promise<void>;
  /** Undefined when there is no server for it. Only for the types of `ownServer`. */
  status(addon: AddonRef): Promise<AddonStatus | undefined>;
  /** All servers this process knows of, also those that the deployer has forgotten (then: `remove` it). */
  list(): Promise<AddonStatus[]>;
  /** Calls back when something about an addon changed; for speed only, `status` is the truth. */
  watch(listener: (serviceId: string) => void): void;
};
