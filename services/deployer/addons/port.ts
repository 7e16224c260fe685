import type { RuntimeState } from "../runtime/port.ts";
import type { AddonType, ServiceSize } from "../terms/services.ts";
import type { UsageChange } from "../terms/usage-change.ts";

/**
 * The port through which the deployer runs managed addons. On one machine a postgres addon is a database in a shared
 * server and a redis addon a process; on a cluster each is a StatefulSet with a volume.
 */

/** Identifies an addon. */
export type AddonRef = {
  serviceId: string;
  type: AddonType;
  /** Absent for one whose service no longer exists: `list` returned it, so the adapter knows where it is. */
  environmentId?: string;
};

/** The desired state of an addon. */
export type Addon = AddonRef & {
  accountId: string;
  projectId: string;
  environmentId: string;
  /** The service's name or, where a renamed service's objects are called so, another one; unique in its environment. */
  name: string;
  size: ServiceSize;
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
  /** The next `ensure` moves it to a newer patch release. */
  outdated?: boolean;
  /** As in `RuntimeStatus`. */
  usage: UsageChange[];
  /** Why it does not run, where more is known than that it exited. */
  problem?: { state: Exclude<RuntimeState, "running" | "stopped">; message: string };
};

export type AddonServers = {
  /**
   * The types whose addons have a server of their own, which this adapter watches. The others share a server; once ready,
   * they count as running while they exist.
   */
  readonly ownServer: readonly AddonType[];
  /**
   * Brings the addon to its desired state, with this password. Idempotent, and safe while another process does the same.
   * Throws when the outcome is unknown, for instance because a server does not answer.
   */
  ensure(addon: Addon, password: string): Promise<AddonOutcome>;
  /** Returns where apps of its environment reach a ready addon. */
  address(addon: Pick<Addon, "type" | "environmentId" | "name" | "port">): AddonAddress;
  /** Removes it with its data; resolves when nothing is left. Idempotent. */
  remove(addon: AddonRef): Promise<void>;
  /** Returns undefined when it has no server. Only for the types of `ownServer`. */
  status(addon: AddonRef): Promise<AddonStatus | undefined>;
  /** Returns all servers this process knows, including those whose service no longer exists (`remove` them). */
  list(): Promise<AddonStatus[]>;
  /** Calls `listener` when something about an addon changed; for speed only, `status` is the truth. */
  watch(listener: (serviceId: string) => void): void;
};
