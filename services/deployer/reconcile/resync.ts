import { tryEach } from "../../kit/concurrency/try-each.ts";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { AddonServers } from "../addons/port.ts";
import { listDeletedEnvironments } from "../projects/deletion-sql.ts";
import type { Runtime } from "../runtime/port.ts";
import { ADDON_TYPES } from "../terms/services.ts";
import { recordHeartbeats } from "../usage/intervals.ts";
import { enqueueDrifted, enqueueDriftedAddons, enqueueUnfinished, listStrays } from "./resync-sql.ts";

export type ResyncDeps = {
  pool: Pool;
  runtime: Runtime;
  addonServers: AddonServers;
  log: Logger;
  /** Has the work queue claim due services now. */
  wake: () => void;
};

/**
 * Compares the database with what the runtime and the addon servers hold, where notifications were missed:
 * enqueues each service that differs, and removes what belonged to services and environments that were removed.
 * What the database knows nothing of is left alone: it may be empty, or restored from a backup.
 */
export async function resync(deps: ResyncDeps): Promise<void> {
  const { pool, runtime, addonServers } = deps;
  const unread = runtime.unread?.() ?? []; // first: what is read meanwhile may be missing in the list
  const [releases, addons] = await Promise.all([runtime.list(), addonServers.list()]);
  await enqueueDrifted(pool, releases, unread);
  await enqueueUnfinished(pool);
  await enqueueDriftedAddons(pool, addons, addonServers.ownServer);
  deps.wake();
  const strays = new Set(await listStrays(pool, [...ids(releases), ...ids(addons)]));
  const isStray = ({ serviceId }: { serviceId: string }) => strays.has(serviceId);
  const removals = [
    ...addons.filter(isStray).map((addon) => () => addonServers.remove(addon)),
    ...releases.filter(isStray).map(({ serviceId }) => () => {
      deps.log.info({ serviceId }, "removing what the runtime held for a deleted service");
      return runtime.remove(serviceId);
    }),
    () => removeEnvironments(deps),
  ];
  await tryEach(removals, (remove) => remove());
}

async function removeEnvironments({ pool, runtime }: ResyncDeps): Promise<void> {
  const held = (await runtime.environments?.()) ?? [];
  await tryEach(await listDeletedEnvironments(pool, held), async (id) => runtime.removeEnvironment?.(id));
}

/** Records which services run now, for what is paid by time. */
export async function recordRunning({ pool, runtime, addonServers }: ResyncDeps): Promise<void> {
  const held = (await Promise.all([runtime.list(), addonServers.list()])).flat();
  const running = held.filter(({ usage }) => (usage?.at(-1)?.replicas ?? 0) > 0);
  const shared = ADDON_TYPES.filter((type) => !addonServers.ownServer.includes(type));
  // The interval of a cron service ends with its last run.
  await recordHeartbeats(pool, ids(running), [...shared, "cron"]);
}

function ids(held: { serviceId: string }[]): string[] {
  return held.map((one) => one.serviceId);
}
