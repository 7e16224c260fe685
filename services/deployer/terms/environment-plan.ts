import { sizes } from "../../kit/sizes.ts";

/** What the plan of an account allows in one of its environments; nothing is counted that is absent. */
export type EnvironmentPlan = {
  /** At once, without other versions; `cpu` in thousandths, `memory` and local `storage` in MiB. */
  most?: { pods: number; cpu: number; memory: number; storage: number };
  volumes?: number;
  /** Ports that the installation closes otherwise. */
  openPorts: number[];
  /** With which nodes pull images there, besides the operator's. */
  logins?: RegistryLogin[];
};

/** A login for a registry; secret. */
export type RegistryLogin = { host: string; user: string; token: string };

/** Returns the plans of these environments, by id; none of one that is not known. */
export type EnvironmentPlans = (environmentIds: string[]) => Promise<ReadonlyMap<string, EnvironmentPlan>>;

/** Local disk, in MiB, of containers that say nothing of it: addons and apps that were applied before it was limited. */
export const DEFAULT_STORAGE = sizes.large.storage;
