import { AddonStorageFillingSchema } from "../../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { audit } from "../../../kit/events/audit.ts";
import { emit } from "../../../kit/events/outbox.ts";
import type { EntitlementsOf } from "../../../kit/plans.ts";
import { type Pool, type Tx, transaction } from "../../../kit/postgres/db.ts";
import { startTask } from "../../../kit/tasks/task.ts";
import { findEntitlements } from "../../accounts/provisioning.ts";
import { enqueue } from "../../due/sql.ts";
import type { Logger } from "../../shared/logger.ts";
import { GROW_VOLUMES } from "../../tasks.ts";
import type { FillingVolume } from "../../terms/measurement.ts";
import type { AddonServers } from "../port.ts";
import { hasArrived, toNextSize } from "./next-size.ts";
import * as sql from "./sql.ts";

type GrowDeps = {
  pool: Pool;
  servers: Pick<AddonServers, "describe" | "cannotGrow" | "listFilling">;
  entitlementsOf: EntitlementsOf;
  log: Logger;
};

const GIB = 1024 ** 3;
const GROWS_FROM = 0.85;
/** Of one that does not grow, users are told from this on. */
const TOLD_FROM_PERCENT = 90;
const BY_ITSELF = { caller: { kind: "service" as const, id: "deployer", ip: "" }, requestId: "" };

/** Lets nearly full volumes of addons grow again and again. */
export function startGrowingVolumes(deps: GrowDeps) {
  return startTask(GROW_VOLUMES, (signal) => growVolumes(deps, signal), { log: deps.log });
}

/**
 * Lets each nearly full volume of an addon grow that may, and tells of the others (docs/addons.md#volumes-that-fill). Throws at
 * the end where that failed for one of them.
 */
export async function growVolumes(deps: GrowDeps, signal?: AbortSignal): Promise<void> {
  const errors: unknown[] = [];
  for (const volume of (await deps.servers.listFilling?.(GROWS_FROM)) ?? []) {
    if (signal?.aborted) return;
    await attendTo(deps, volume).catch((error) => errors.push(error));
  }
  if (errors.length > 0) throw errors[0];
}

async function attendTo({ pool, servers, entitlementsOf }: GrowDeps, volume: FillingVolume): Promise<void> {
  const { serviceId, usedBytes, capacityBytes } = volume;
  const found = await sql.findVolume(pool, serviceId);
  if (!found) return;
  const { accountId, storageGib, storageMaxGib, quiet } = found;
  const usedPercent = Math.floor((100 * usedBytes) / capacityBytes);
  const tells = usedPercent >= TOLD_FROM_PERCENT && !quiet;
  if (storageMaxGib === null && !tells) return;

  const addon = { ...found, serviceId, engine: found.engine ?? undefined };
  const { storageBytes = capacityBytes } = await servers.describe(addon);
  const gib = Math.max(storageGib ?? 1, Math.ceil(storageBytes / GIB));
  const capacityGib = capacityBytes / GIB;
  const { storageGib: planGib } = await findEntitlements(pool, entitlementsOf, accountId);
  const next = toNextSize({ gib, capacityGib, maxGib: storageMaxGib ?? undefined, planGib });
  const refusal = "to" in next ? await servers.cannotGrow(addon, next.to) : undefined;
  const event = { accountId, serviceId, usedPercent, storageGib: gib };

  if ("to" in next && refusal === undefined)
    return transaction(pool, (tx) => grow(tx, { ...event, grownToGib: next.to }, storageGib));
  if (!tells) return;
  const reason =
    "reason" in next ? next.reason : `Fork the addon with more storage before it is full. ${refusal}`;
  const shownGib = hasArrived({ gib, capacityGib }) ? gib : Math.round(capacityGib);
  await transaction(pool, async (tx) => {
    const told = await sql.quieten(tx, serviceId);
    if (told)
      await emit(tx, AddonStorageFillingSchema, accountId, {
        ...event,
        storageGib: shownGib,
        reason,
        ...told,
      });
  });
}

type Growth = {
  accountId: string;
  serviceId: string;
  usedPercent: number;
  storageGib: number;
  grownToGib: number;
};

/** Stores the next size of a volume unless its service was changed meanwhile, as by another process that did the same. */
async function grow(tx: Tx, event: Growth, before: number | null): Promise<void> {
  const { accountId, serviceId, storageGib: from, grownToGib: to } = event;
  const grown = await sql.growVolume(tx, serviceId, before, to);
  if (!grown) return;
  const metadata = { name: grown.name, from: String(from), to: String(to) };
  await audit(tx, BY_ITSELF, {
    ...{ service: "deployer", accountId, action: "service.grow", target: serviceId, metadata },
  });
  await emit(tx, AddonStorageFillingSchema, accountId, { ...event, at: grown.at });
  await enqueue(tx, [serviceId]);
}
