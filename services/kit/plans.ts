import type { ConnectError } from "@connectrpc/connect";
import { type ConfigOf, choice, isObject, isPorts, json } from "./process/config.ts";
import { refuse } from "./rpc/refusals.ts";
import { sizes } from "./sizes.ts";

/** The plans, smallest first (docs/plans.md#plans). What they cost is known to billing alone. */
export const TIERS = ["free", "pro", "team", "enterprise"] as const;
export type Tier = (typeof TIERS)[number];

type Size = keyof typeof sizes;

/** How much of something an account may have. What a larger plan left is kept. */
export type Quotas = {
  projects: number;
  servicesPerType: number;
  /** Of each service. */
  replicas: number;
  /** The largest size of a service. */
  size: Size;
  members: number;
};

/** What an account's plan allows. */
export type Entitlements = {
  uploadBytes: number;
  buildMs: number;
  /** How many versions that were live are retained. */
  historyDepth: number;
  /** How many of the installation's builds may be the account's. */
  buildsAtOnce: number;
  /** How many volumes, one for each addon, of all environments together. */
  volumes: number;
  /** How large a volume may be that a user asks for, in GiB. */
  storageGib: number;
  /** How many domains, of all services together. */
  domains: number;
  /** How many runs of commands may not have ended, of all services together. */
  runsAtOnce: number;
  /** The largest size of a service; undefined when any may be. */
  largestSize: Size | undefined;
  /** For how many days the newest backup of a deleted addon is kept. */
  backupDays: number;
  /** TCP ports that apps may reach although the installation closes them. */
  openPorts: number[];
  /** Undefined when nothing of these is counted. */
  quotas: Quotas | undefined;
};

/** Returns what a plan allows; without one, what the default plan does. */
export type EntitlementsOf = (tier: string | null | undefined) => Entitlements;

const PAID = { uploadBytes: 500 * 1024 ** 2, buildMs: 30 * 60_000, quotas: undefined };
const UNCOUNTED = {
  quotas: undefined,
  buildsAtOnce: Infinity,
  volumes: Infinity,
  storageGib: Infinity,
  domains: Infinity,
  runsAtOnce: Infinity,
};

const ENTITLEMENTS: Record<Tier, Omit<Entitlements, "openPorts" | "largestSize" | "backupDays">> = {
  free: {
    uploadBytes: 250 * 1024 ** 2,
    buildMs: 15 * 60_000,
    historyDepth: 5,
    buildsAtOnce: 1,
    volumes: 2,
    storageGib: 1,
    domains: 1,
    runsAtOnce: 1,
    quotas: { projects: 1, servicesPerType: 1, replicas: 1, size: "nano", members: 1 },
  },
  pro: {
    ...PAID,
    historyDepth: 20,
    buildsAtOnce: 2,
    volumes: 20,
    storageGib: 50,
    domains: 20,
    runsAtOnce: 10,
  },
  team: {
    ...PAID,
    historyDepth: 100,
    buildsAtOnce: 5,
    volumes: 100,
    storageGib: 500,
    domains: 100,
    runsAtOnce: 50,
  },
  enterprise: { ...PAID, ...UNCOUNTED, historyDepth: 500 },
};

const BACKUP_DAYS = 7;
const MOST_BACKUP_DAYS = 365;

/** The settings of every process that enforces plans. */
export const planFields = {
  /** The plan of an account that billing has said nothing about. */
  defaultTier: choice("DEFAULT_TIER", TIERS, "enterprise"),
  /** Whether quotas, volumes and builds at once are limited; if not, only uploads, build time and history are by plan. */
  planQuotas: choice("PLAN_QUOTAS", ["on", "off"] as const, "on"),
  /** Closed ports that a plan opens, as JSON: `{"team": [587]}`. None unless given. */
  planOpenPorts: json(
    "PLAN_OPEN_PORTS",
    {} as Partial<Record<Tier, number[]>>,
    isPortsByTier,
    `an object of lists of ports, by plan (${TIERS.join(", ")})`,
  ),
  /** The largest size of a service by plan, as JSON: `{"pro": "medium"}`. Also where quotas are off. */
  planSizes: json(
    "PLAN_SIZES",
    {} as Partial<Record<Tier, Size>>,
    isSizesByTier,
    `an object of sizes (${Object.keys(sizes).join(", ")}), by plan (${TIERS.join(", ")})`,
  ),
  /** The largest volume of an addon in GiB by plan, as JSON: `{"free": 5}`. Also where quotas are off. */
  planStorage: json(
    "PLAN_STORAGE",
    {} as Partial<Record<Tier, number>>,
    isStorageByTier,
    `an object of sizes in GiB (1 or more), by plan (${TIERS.join(", ")})`,
  ),
  /** For how many days the newest backup of a deleted addon is kept, by plan, as JSON: `{"free": 0}`. 7 unless given. */
  planBackupDays: json(
    "PLAN_BACKUP_DAYS",
    {} as Partial<Record<Tier, number>>,
    isDaysByTier,
    `an object of days (0 to ${MOST_BACKUP_DAYS}), by plan (${TIERS.join(", ")})`,
  ),
};

function isDaysByTier(value: unknown): boolean {
  return isNumbersByTier(value, 0, MOST_BACKUP_DAYS);
}

function isStorageByTier(value: unknown): boolean {
  return isNumbersByTier(value, 1, Infinity);
}

function isNumbersByTier(value: unknown, least: number, most: number): boolean {
  const isEntry = ([tier, n]: [string, unknown]) =>
    TIERS.some((one) => one === tier) && Number.isInteger(n) && Number(n) >= least && Number(n) <= most;
  return isObject(value) && Object.entries(value).every(isEntry);
}

function isPortsByTier(value: unknown): boolean {
  const isEntry = ([tier, ports]: [string, unknown]) => TIERS.some((one) => one === tier) && isPorts(ports);
  return isObject(value) && Object.entries(value).every(isEntry);
}

function isSizesByTier(value: unknown): boolean {
  const isEntry = ([tier, size]: [string, unknown]) =>
    TIERS.some((one) => one === tier) && typeof size === "string" && Object.hasOwn(sizes, size);
  return isObject(value) && Object.entries(value).every(isEntry);
}

/** Returns the plan of an account: the default one if billing has said nothing, or something newer than this version. */
export function planOf(config: { defaultTier: Tier }, tier: string | null | undefined): Tier {
  return TIERS.find((one) => one === tier) ?? config.defaultTier;
}

/** Returns what plans allow in an installation with these settings. */
export function createEntitlements(config: ConfigOf<typeof planFields>): EntitlementsOf {
  return (tier) => {
    const plan = planOf(config, tier);
    const entitled = { ...ENTITLEMENTS[plan], ...(config.planQuotas === "off" && UNCOUNTED) };
    const largestSize = config.planSizes[plan] ?? entitled.quotas?.size;
    const quotas = entitled.quotas && { ...entitled.quotas, ...(largestSize && { size: largestSize }) };
    const backupDays = config.planBackupDays[plan] ?? BACKUP_DAYS;
    const storageGib = config.planStorage[plan] ?? entitled.storageGib;
    return {
      ...entitled,
      quotas,
      largestSize,
      storageGib,
      backupDays,
      openPorts: config.planOpenPorts[plan] ?? [],
    };
  };
}

/** Returns a 403 quota_exceeded with the limit and how to get more. `what` is in the plural: "projects". */
export function quotaExceeded(accountId: string, what: string, limit: number | string): ConnectError {
  const message = `On this plan, ${what} are limited to ${limit}. For more, an owner can choose another one at POST /accounts/${accountId}/subscription.`;
  return refuse(403, "quota_exceeded", message, { context: { limit } });
}
