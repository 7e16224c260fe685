import { randomInt } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { entitlementsOf, times, UPLOAD_SWEEP_MS } from "../accounts/plans.ts";
import type { Addons } from "../addons/lifecycle.ts";
import { ADDON_TYPES, type AddonServers, type AddonType } from "../addons/port.ts";
import type { Builder } from "../builder/port.ts";
import { createBuilds } from "../builds/running-builds.ts";
import { listDeletedEnvironments } from "../catalog/deletion-sql.ts";
import { storable } from "../deployments/fail-deployment.ts";
import { expireAllArtifacts } from "../deployments/retention-sql.ts";
import { accountImages, type IsBuiltImage } from "../images/account-images.ts";
import { createReleases } from "../releases/apply-release.ts";
import { readDesired } from "../releases/sql.ts";
import type { ResolveVariables } from "../releases/variables-client.ts";
import type { Runtime, RuntimeStatus } from "../runtime/port.ts";
import { type Secrets, UPLOADS } from "../secrets.ts";
import type { ObjectStore } from "../store/port.ts";
import { recordHeartbeats } from "../usage/intervals.ts";
import { compareAddons } from "../usage/sql.ts";
import { listenAsOwner } from "./lease-session.ts";
import { createActions } from "./perform.ts";
import { type Desired, type Observed, plan } from "./plan.ts";
import { compare, releaseAll } from "./sql.ts";
import { startWorkQueue, type WorkQueue } from "./work-queue.ts";

export type ReconcilerDeps = {
  databaseUrl: string;
  pool: Pool;
  runtime: Runtime;
  builder: Builder;
  store: ObjectStore;
  addons: Addons;
  addonServers: AddonServers;
  secrets: Secrets;
  isBuiltImage: IsBuiltImage;
  resolve: ResolveVariables;
  log: Logger;
  minReadySeconds: number;
  buildsAtOnce: number;
};

/** More rounds than any service needs: past it the others get their turn. */
const ROUNDS = 10;
const RENEW_MS = 15_000;
const RESYNC_MS = 15_000;
const SWEEP_MS = 3_600_000;

/**
 * Brings every service from what is observed to what is desired (docs/architecture.md#reconciler).
 * Several processes share the work by leases on rows; a service is worked on by one at a time. Woken by
 * notifications and by the runtime's watch, and by the clock where those are missed.
 */
export async function startReconciler(deps: ReconcilerDeps) {
  const { pool, runtime, store, addonServers, log } = deps;
  const owner = randomInt(1, 2 ** 31);
  const waitingForSlot = new Set<string>();
  const stopping = new AbortController();
  let queue: WorkQueue | undefined;

  const builds = createBuilds({
    ...deps,
    owner,
    ended(serviceId, broken) {
      queue?.ended(serviceId, broken);
      for (const waiting of waitingForSlot) queue?.enqueue(waiting);
      waitingForSlot.clear();
    },
  });
  const releases = createReleases({ ...deps, images: accountImages(deps.isBuiltImage), owner });
  const perform = createActions({ ...deps, builds, releases, owner });

  /** Plans and acts until nothing is left to do; gives the milliseconds until it has to look again. */
  async function step(serviceId: string): Promise<number | undefined> {
    for (let round = 0; round < ROUNDS; round++) {
      const desired = await readDesired(pool, serviceId);
      if (!desired || stopping.signal.aborted) return undefined;
      const builderFree = builds.hasSlot();
      const status = observed(await runtime.status(serviceId));
      const building = builds.current(serviceId);
      const allowed = { ...times, buildMs: entitlementsOf(desired.tier).buildMs };
      const addon = await addonSeen(serviceId, desired);
      const seen = { runtime: status, addon, building, builderFree };
      const { actions, wakeAt } = plan(desired, seen, allowed);
      if (!builderFree && desired.active?.fromSource) waitingForSlot.add(serviceId);
      let moved = false;
      for (const action of actions) moved = (await perform(serviceId, action)) || moved;
      if (!moved) return wakeAt && Math.max(0, wakeAt - desired.now);
    }
    return 1_000;
  }

  async function addonSeen(serviceId: string, desired: Desired): Promise<Observed["addon"]> {
    const { type, environmentId, addonState } = desired;
    if (addonState !== "ready") return undefined;
    const ref = { serviceId, type: type as AddonType, environmentId };
    return addonServers.ownServer.includes(ref.type) ? addonServers.status(ref) : "shared";
  }

  /** The truth, where notifications were missed: what the runtime holds against what it should. */
  async function resync(): Promise<void> {
    const [held, addons] = await Promise.all([runtime.list(), addonServers.list()]);
    const strays = await compare(pool, held);
    const strayAddons = await compareAddons(pool, addons, addonServers.ownServer);
    for (const addon of addons) if (strayAddons.includes(addon.serviceId)) await addonServers.remove(addon);
    const counting = [...held, ...addons].filter(({ usage }) => (usage?.at(-1)?.replicas ?? 0) > 0);
    await recordHeartbeats(
      pool,
      counting.map((one) => one.serviceId),
      ADDON_TYPES.filter((type) => !addonServers.ownServer.includes(type)),
    );
    for (const serviceId of strays) {
      log.info({ serviceId }, "the runtime held a service that is no more");
      await runtime.remove(serviceId);
    }
    queue?.wake();
    for (const environmentId of await listDeletedEnvironments(pool, (await runtime.environments?.()) ?? []))
      await runtime.removeEnvironment?.(environmentId);
  }

  /** A build whose lease was lost is another process's now. */
  async function renew(): Promise<void> {
    for (const serviceId of (await queue?.renew()) ?? []) await builds.leave(serviceId);
  }

  async function sweep(): Promise<void> {
    await store.sweep(new Date(Date.now() - UPLOAD_SWEEP_MS), UPLOADS);
    await expireAllArtifacts(pool);
  }
  const listener = await listenAsOwner({
    url: deps.databaseUrl,
    owner,
    wake: () => queue?.wake(),
    log,
  });
  queue = startWorkQueue({ pool, log, owner, step, background: builds.services });
  addonServers.watch((serviceId) => queue?.enqueue(serviceId));
  const unwatch = runtime.watch((status) => queue?.enqueue(status.serviceId));
  const timers = [
    every(RENEW_MS, renew, stopping.signal, log),
    every(RESYNC_MS, resync, stopping.signal, log),
    every(SWEEP_MS, sweep, stopping.signal, log),
  ];
  return {
    /** Ends what is under way without deciding it: the next process goes on from there. */
    stop: async () => {
      stopping.abort();
      unwatch();
      await queue?.stop();
      await builds.leaveAll();
      await Promise.all(timers);
      await releaseAll(pool, owner).catch(() => {});
      await listener.stop();
    },
  };
}

/** The status in a form the database can hold. */
function observed(status: RuntimeStatus | undefined): RuntimeStatus | undefined {
  return status?.message === undefined ? status : { ...status, message: storable(status.message) };
}

/** Runs `task` now and then, beginning now, until the signal; a failure waits for the next time. */
async function every(
  ms: number,
  task: () => Promise<unknown>,
  signal: AbortSignal,
  log: Logger,
): Promise<void> {
  while (!signal.aborted) {
    await task().catch((error) =>
      log.warn({ err: error }, "could not look after the services; it is tried again"),
    );
    await delay(ms, undefined, { signal, ref: false }).catch(() => {});
  }
}
