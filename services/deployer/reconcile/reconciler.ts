import { randomInt } from "node:crypto";
import { tryEach } from "../../kit/concurrency/try-each.ts";
import type { Logger } from "../../kit/log.ts";
import type { EntitlementsOf } from "../../kit/plans.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Loop } from "../../kit/tasks/loop.ts";
import { startTask } from "../../kit/tasks/task.ts";
import type { Addons } from "../addons/lifecycle.ts";
import type { AddonServers } from "../addons/port.ts";
import type { Builder } from "../builder/port.ts";
import { type AdmissionDeps, admitBuilds } from "../builds/admit-builds.ts";
import { createBuilds } from "../builds/running-builds.ts";
import { UPLOAD_SWEEP_MS } from "../deployments/accept/archive-upload.ts";
import { expireAllArtifacts } from "../deployments/retention-sql.ts";
import { startLeaseSession } from "../due/lease-session.ts";
import { releaseAll } from "../due/sql.ts";
import { startWorkQueue, type WorkQueue } from "../due/work-queue.ts";
import { accountImages, type IsBuiltImage } from "../images/account-images.ts";
import type { ImageDigests } from "../images/digests/resolve-digest.ts";
import type { RegistryLogins } from "../images/registries/logins.ts";
import type { Runtime } from "../runtime/port.ts";
import { DUMPS, type Secrets, UPLOADS } from "../secrets.ts";
import type { ObjectStore } from "../store/port.ts";
import { ADMIT_BUILDS, RECORD_RUNNING, RENEW_LEASES, RESYNC, SWEEP } from "../tasks.ts";
import type { EarlyVariables } from "../variables/early-variables.ts";
import { perform } from "./perform.ts";
import type { Action } from "./plan.ts";
import { reconcileService } from "./reconcile-service.ts";
import { recordRunning, resync } from "./resync.ts";

/** Longer than a backup may be made of an upload. What has a record is removed by that before. */
const DUMP_SWEEP_MS = 5 * 3_600_000;

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
  imageDigests?: ImageDigests;
  logins?: Pick<RegistryLogins, "authorizationFor">;
  entitlementsOf: EntitlementsOf;
  early: EarlyVariables;
  log: Logger;
  minReadySeconds: number;
} & AdmissionDeps;

/**
 * Brings every service from what is observed to what is desired (docs/architecture.md#reconciler).
 * Several processes share the work by leases on rows; one at a time works on a service. Notifications
 * and the watches of runtime and addon servers wake it; a periodic comparison finds what they missed.
 */
export async function startServiceReconciler(deps: ReconcilerDeps) {
  const { pool, runtime, store, addonServers, early, log } = deps;
  const owner = randomInt(1, 2 ** 31);
  const stopping = new AbortController();
  let queue: WorkQueue | undefined;
  let admission: Loop | undefined;

  const builds = createBuilds({
    ...deps,
    resolve: early.resolve,
    owner,
    ended(serviceId, broken) {
      queue?.backgroundEnded(serviceId, broken);
      // A stop leaves its builds under way.
      if (!stopping.signal.aborted) admission?.wake();
    },
  });
  const performDeps = {
    ...deps,
    resolve: early.resolve,
    builds,
    images: accountImages(deps.isBuiltImage, []),
    owner,
  };

  const reconcileDeps = {
    ...deps,
    builds,
    perform: (serviceId: string, action: Action) => perform(performDeps, serviceId, action),
    stopping: stopping.signal,
  };
  const wake = () => queue?.wake();

  /** Prolongs the leases of work in progress. A build whose lease is lost belongs to another process. */
  async function renew(): Promise<void> {
    for (const serviceId of (await queue?.renew()) ?? []) await builds.handOver(serviceId);
  }

  const sweep = () =>
    tryEach(
      [
        () => store.sweep(new Date(Date.now() - UPLOAD_SWEEP_MS), UPLOADS),
        () => store.sweep(new Date(Date.now() - DUMP_SWEEP_MS), DUMPS),
        () => expireAllArtifacts(pool, deps.entitlementsOf),
      ],
      (step) => step(),
    );
  const session = await startLeaseSession({ url: deps.databaseUrl, owner, wake, log });
  const step = (serviceId: string, reading: () => void) =>
    reconcileService(reconcileDeps, serviceId, reading);
  queue = startWorkQueue({ pool, log, owner, step, background: builds.services });
  early.setApplies(true);
  addonServers.watch((serviceId) => queue?.enqueue(serviceId));
  const unwatch = runtime.watch((status) => queue?.enqueue(status.serviceId));
  const resyncDeps = { ...deps, wake };
  admission = startTask(ADMIT_BUILDS, async () => void (await admitBuilds(deps)), { log });
  const tasks = [
    startTask(RENEW_LEASES, renew, { log }),
    startTask(RESYNC, () => resync(resyncDeps), { log }),
    startTask(RECORD_RUNNING, () => recordRunning(resyncDeps), { log }),
    admission,
    startTask(SWEEP, sweep, { log }),
  ];
  return {
    /** Ends the work in progress without deciding it: the process that takes over continues from there. */
    stop: async () => {
      stopping.abort();
      early.setApplies(false);
      const tasksEnded = Promise.all(tasks.map((task) => task.stop()));
      unwatch();
      await queue?.stop();
      await builds.handOverAll();
      await tasksEnded;
      await releaseAll(pool, owner).catch(() => {});
      await session.stop();
    },
  };
}
