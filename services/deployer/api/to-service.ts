import type { AddonBackups, AddonChoice, AddonServers } from "../addons/port.ts";
import type { archiveShown } from "../backups/point-in-time.ts";
import { serviceStatus } from "../projects/service-status.ts";
import type { ServiceRow } from "../projects/services-sql.ts";
import { ADDON_TYPES, type AddonType, isAddon, MOST_SERVERS } from "../terms/services.ts";
import { isPrivate } from "../terms/stored-config.ts";
import { NO_STANDBYS } from "./addon-config.ts";

type ToldBackups = { backups: Pick<AddonBackups, "unsupported" | "noArchive"> };

export type ToService = ReturnType<typeof createToService>;

/**
 * Returns what makes the message of a service from its row. It asks nothing meanwhile, because transactions call it: what
 * an installation can do is what the last question found, which each message of an addon asks anew.
 */
export function createToService({ backups, choiceOf }: Pick<AddonServers, "choiceOf"> & ToldBackups) {
  const reasons = new Map<AddonType, string | undefined>();
  const asking = new Set<AddonType>();

  async function ask(type: AddonType): Promise<void> {
    if (asking.has(type)) return;
    asking.add(type);
    try {
      reasons.set(type, await backups.unsupported(type));
    } finally {
      asking.delete(type);
    }
  }

  function addonOf(row: ServiceRow) {
    const type = row.type as AddonType;
    ask(type).catch(() => {});
    const backupsReason = reasons.get(type);
    const pointInTimeReason =
      backupsReason ?? backups.noArchive({ type, engine: row.addonEngine ?? undefined });
    const choice = choiceOf(type);
    const { versions, versionsReason, storageReason, storageGrowsReason, poolerReason } = choice;
    return {
      capabilities: {
        ...{ backups: backupsReason === undefined, backupsReason, ...serversOf(row, choice) },
        ...{ pointInTime: pointInTimeReason === undefined, pointInTimeReason },
        ...{ versions, versionsReason, storage: storageReason === undefined, storageReason },
        ...{ storageGrows: storageGrowsReason === undefined, storageGrowsReason },
        ...{ pooler: poolerReason === undefined, poolerReason },
      },
      backups: { latestAt: row.latestBackupAt ?? undefined, restore: restoreOf(row) },
    };
  }

  for (const type of ADDON_TYPES) ask(type).catch(() => {});
  return (row: ServiceRow) => ({
    ...row,
    ...serviceStatus(row),
    ...(row.type === "web" && { config: { ...row.config, public: !isPrivate(row.config) } }),
    ...(isAddon(row.type) ? addonOf(row) : {}),
  });
}

function serversOf({ type, addonEngine }: ServiceRow, { standbyReason }: AddonChoice) {
  const maxReplicasReason = type === "postgres" ? (addonEngine ? undefined : NO_STANDBYS) : standbyReason;
  return maxReplicasReason === undefined
    ? { maxReplicas: MOST_SERVERS[type as AddonType] }
    : { maxReplicas: 1, maxReplicasReason };
}

function restoreOf(row: ServiceRow) {
  if (!row.restoredBackup) return undefined;
  return {
    backup: row.restoredBackup,
    status: row.restoreStatus ?? "running",
    startedAt: row.restoreStartedAt,
    finishedAt: row.restoreFinishedAt ?? undefined,
    failure: row.restoreFailure ?? undefined,
  };
}

/** Returns the message of an addon with what its archive has. */
export function withArchive(
  service: ReturnType<ToService>,
  { reason, ...shown }: Awaited<ReturnType<typeof archiveShown>>,
) {
  if (!("capabilities" in service)) return service;
  const { capabilities, backups } = service;
  const lacking = reason !== undefined && { pointInTime: false, pointInTimeReason: reason };
  return { ...service, capabilities: { ...capabilities, ...lacking }, backups: { ...backups, ...shown } };
}
