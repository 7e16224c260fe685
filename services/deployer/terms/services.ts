import type { sizes } from "../../kit/sizes.ts";

/** The types of services that run deployments. */
export type ServiceType = "web" | "worker" | "cron";
export type ServiceSize = keyof typeof sizes;

export const ADDON_TYPES = ["postgres", "redis"] as const;

export type AddonType = (typeof ADDON_TYPES)[number];

/** Where the servers of addons listen on a cluster. */
export const ADDON_PORTS = { postgres: 5432, redis: 6379 };

/** Whether services of a type run deployments. The others are managed addons, or of a newer version. */
export function isDeployable(type: string): type is ServiceType {
  return type === "web" || type === "worker" || type === "cron";
}

/** Whether services of a type are managed addons. */
export function isAddon(type: string): type is AddonType {
  return ADDON_TYPES.some((one) => one === type);
}

/** Whether this version knows a type. One that it does not is left to the newer processes beside it. */
export function isKnown(type: string): type is ServiceType | AddonType {
  return isDeployable(type) || isAddon(type);
}

/** What runs PostgreSQL besides the usual engine of a cluster or a machine: CloudNativePG. */
export type AddonEngine = "cnpg";

/** How many servers an addon has at most: one that takes writes, and standbys. */
export const MOST_SERVERS = { postgres: 3, redis: 2 };
