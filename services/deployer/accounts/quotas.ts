import { type Entitlements, type EntitlementsOf, quotaExceeded } from "../../kit/plans.ts";
import type { Db, Tx } from "../../kit/postgres/db.ts";
import { sizes } from "../../kit/sizes.ts";
import { isDeployable, type ServiceSize } from "../terms/services.ts";
import { mostReplicas, type StoredConfig } from "../terms/stored-config.ts";
import { countAddons, countProjects, countServices, findTier, lockTier } from "./sql.ts";

// What the plan allows to be made (docs/plans.md#quotas). Each throws 403 quota_exceeded with `limit`.

/** Requires that the account may have one more project. Other requests for one wait until the transaction ends. */
export async function requireProject(
  tx: Tx,
  entitlementsOf: EntitlementsOf,
  accountId: string,
): Promise<void> {
  const { quotas } = await lockAllowed(tx, entitlementsOf, accountId);
  if (!quotas || (await countProjects(tx, accountId)) < quotas.projects) return;
  throw quotaExceeded(accountId, "projects", quotas.projects);
}

/**
 * Requires that the account may have one more service of this type and configuration. Other requests for one wait until
 * the transaction ends.
 */
export async function requireService(
  tx: Tx,
  entitlementsOf: EntitlementsOf,
  service: { accountId: string; type: string; config: StoredConfig },
): Promise<void> {
  const { accountId, type, config } = service;
  const allowed = await lockAllowed(tx, entitlementsOf, accountId);
  const { quotas, volumes } = allowed;
  checkScale(accountId, allowed, config);
  if (quotas && (await countServices(tx, accountId, type)) >= quotas.servicesPerType)
    throw quotaExceeded(accountId, `services of type ${type}`, quotas.servicesPerType);
  if (isDeployable(type) || !Number.isFinite(volumes)) return;
  if ((await countAddons(tx, accountId)) >= volumes)
    throw quotaExceeded(accountId, "addons, each with a volume,", volumes);
}

/** Requires that a service may have the size and replicas of `config`. Those that it has already it keeps. */
export async function requireScale(
  db: Db,
  entitlementsOf: EntitlementsOf,
  service: { accountId: string; config: StoredConfig },
  config: StoredConfig,
): Promise<void> {
  const { accountId } = service;
  checkScale(accountId, entitlementsOf(await findTier(db, accountId)), config, service.config);
}

/**
 * Requires that the account may have one more domain, of which `count` says how many there are. Other requests for one
 * wait until the transaction ends.
 */
export async function requireDomainQuota(
  tx: Tx,
  entitlementsOf: EntitlementsOf,
  accountId: string,
  count: (tx: Tx, accountId: string) => Promise<number>,
): Promise<void> {
  const { domains } = await lockAllowed(tx, entitlementsOf, accountId);
  if (Number.isFinite(domains) && (await count(tx, accountId)) >= domains)
    throw quotaExceeded(accountId, "domains", domains);
}

/**
 * Requires that the account may have one more run at once, of which `count` says how many there are. Other requests for one
 * wait until the transaction ends.
 */
export async function requireRunQuota(
  tx: Tx,
  entitlementsOf: EntitlementsOf,
  accountId: string,
  count: (tx: Tx, accountId: string) => Promise<number>,
): Promise<void> {
  const runsAtOnce = await findRunLimit(tx, entitlementsOf, accountId);
  if (Number.isFinite(runsAtOnce) && (await count(tx, accountId)) >= runsAtOnce)
    throw quotaExceeded(accountId, "runs at once", runsAtOnce);
}

/** Returns how many runs of an account may not have ended, locked where they are counted. */
export async function findRunLimit(
  tx: Tx,
  entitlementsOf: EntitlementsOf,
  accountId: string,
): Promise<number> {
  return (await lockAllowed(tx, entitlementsOf, accountId)).runsAtOnce;
}

/** Returns what the account's plan allows, locked where something is counted: of most accounts nothing is. */
async function lockAllowed(tx: Tx, entitlementsOf: EntitlementsOf, accountId: string): Promise<Entitlements> {
  const allowed = entitlementsOf(await findTier(tx, accountId));
  const { quotas, volumes, domains, runsAtOnce } = allowed;
  if (!quotas && ![volumes, domains, runsAtOnce].some(Number.isFinite)) return allowed;
  return entitlementsOf(await lockTier(tx, accountId));
}

function checkScale(
  accountId: string,
  { quotas, largestSize, storageGib }: Entitlements,
  config: StoredConfig,
  before?: StoredConfig,
): void {
  const mostGib = Math.max(storageGib, before?.storageGib ?? 0);
  if (
    (config.storageGib ?? 0) > mostGib ||
    (config.storageMaxGib ?? 0) > Math.max(mostGib, before?.storageMaxGib ?? 0)
  )
    throw quotaExceeded(accountId, "volumes of addons, in GiB,", storageGib);
  if (quotas && mostReplicas(config) > Math.max(quotas.replicas, before ? mostReplicas(before) : 0))
    throw quotaExceeded(accountId, "replicas of a service", quotas.replicas);
  if (largestSize === undefined || !isLarger(config.size, largestSize)) return;
  if (isLarger(config.size, before?.size ?? largestSize))
    throw quotaExceeded(accountId, "sizes", largestSize);
}

function isLarger(size: ServiceSize, other: ServiceSize): boolean {
  return sizes[size]?.cpu > sizes[other]?.cpu;
}
