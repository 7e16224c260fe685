import { randomInt } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "../kit/db.ts";
import type { Logger } from "../kit/log.ts";
import { createActions } from "./actions.ts";
import type { Addons } from "./addons.ts";
import type { Builder } from "./builder/port.ts";
import { createBuilds } from "./builds.ts";
import { listenAsOwner } from "./lease-listener.ts";
import { times, UPLOAD_SWEEP_MS } from "./limits.ts";
import { storable } from "./outcome.ts";
import { plan } from "./pipeline.ts";
import { createReleases } from "./releases.ts";
import type { Resolve } from "./resolve.ts";
import type { Runtime } from "./runtime/port.ts";
import { type Secrets, UPLOADS } from "./secrets.ts";
import { loadDesired } from "./sql-releases.ts";
import * as work from "./sql-work.ts";
import type { ObjectStore } from "./store/port.ts";

export type ReconcilerDeps = {
  databaseUrl: string;
  pool: Pool;
  runtime: Runtime;
  builder: Builder;
  store: ObjectStore;
  addons: Addons;
  secrets: Secrets;
  resolve: Resolve;
  log: Logger;
  minReadySeconds: number;
};

const BATCH = 50;
const BUILD_SLOTS = 2;
/** More rounds than any service needs: past it the others get their turn. */
const ROUNDS = 10;
const IDLE_MS = 5_000;
const RENEW_MS = 15_000;
const RESYNC_MS = 15_000;
const SWEEP_MS = 3_600_000;
/** How long steps under way may take when the process stops. */
const STOP_MS = 4_000;

/**
 * Brings every service from what is observed to what is desired (architecture.md "State machines").
 * Several processes share the work by leases on rows; a service is worked on by one at a time. Woken by
 * notifications and by the runtime's watch, and by the clock where those are missed.
 */
export async function startReconciler(deps: ReconcilerDeps) {
  const { pool, runtime, store, log } = deps;
  const owner = randomInt(1, 2 ** 31);
  const inHand = new Map<string, Promise<void>>();
  const again = new Set<string>();
  const failures = new Map<string, number>();
  const waitingForSlot = new Set<string>();
  const stopping = new AbortController();
  let wakeUp = new AbortController();
  const wake = () => wakeUp.abort();
  stopping.signal.addEventListener("abort", wake);

  const poke = (serviceId: string) => {
    if (stopping.signal.aborted) return;
    // Missed when the database is away: the comparison with the runtime finds it.
    work.poke(pool, [serviceId]).catch((error) => log.warn({ err: error }, "a service waits for its turn"));
  };
  const builds = createBuilds({
    ...deps,
    owner,
    slots: BUILD_SLOTS,
    ended(serviceId, broken) {
      const failed = broken ? (failures.get(serviceId) ?? 0) + 1 : 0;
      if (broken) failures.set(serviceId, failed);
      if (inHand.has(serviceId)) again.add(serviceId);
      else work.release(pool, owner, serviceId, broken ? pauseAfter(failed) : 0).then(wake, wake);
      for (const waiting of waitingForSlot) poke(waiting);
      waitingForSlot.clear();
    },
  });
  const releases = createReleases({ ...deps, owner });
  const perform = createActions({ ...deps, builds, releases });

  /** Plans and acts until nothing is left to do; gives the milliseconds until it has to look again. */
  async function step(serviceId: string): Promise<number | undefined> {
    for (let round = 0; round < ROUNDS; round++) {
      const desired = await loadDesired(pool, serviceId);
      if (!desired || stopping.signal.aborted) return undefined;
      const builderFree = builds.hasSlot();
      const status = await runtime.status(serviceId);
      const observed = {
        runtime: status && { ...status, ...(status.message && { message: storable(status.message) }) },
        building: builds.current(serviceId),
        builderFree,
      };
      const { actions, wakeAt } = plan(desired, observed, times);
      if (!builderFree && desired.active?.fromSource) waitingForSlot.add(serviceId);
      let moved = false;
      for (const action of actions) moved = (await perform(serviceId, action)) || moved;
      if (!moved) return wakeAt && Math.max(0, wakeAt - desired.now);
    }
    return 1_000;
  }

  async function handle(serviceId: string): Promise<void> {
    let wakeIn: number | undefined;
    try {
      do {
        again.delete(serviceId);
        wakeIn = await step(serviceId);
      } while (again.has(serviceId));
      if (!builds.current(serviceId)) failures.delete(serviceId);
    } catch (error) {
      const failed = (failures.get(serviceId) ?? 0) + 1;
      failures.set(serviceId, failed);
      wakeIn = pauseAfter(failed);
      log.warn({ err: error, serviceId, failed }, "could not go on with a service; it is tried again");
    }
    // While it is being built here, nobody else may work on it.
    const settle = builds.current(serviceId) ? work.wakeLater : work.release;
    await settle(pool, owner, serviceId, wakeIn).catch(() => {});
    inHand.delete(serviceId);
    if (again.delete(serviceId)) poke(serviceId);
    else if (wakeIn !== undefined) wake();
  }

  async function takeDue(): Promise<number> {
    const claimed = await work.claim(pool, owner, [...inHand.keys(), ...builds.services()], BATCH);
    for (const { serviceId } of claimed) {
      if (inHand.has(serviceId)) again.add(serviceId);
      else inHand.set(serviceId, handle(serviceId));
    }
    if (claimed.length === BATCH) return 0;
    const due = (await work.nextDue(pool)) ?? IDLE_MS;
    // What is due and was not ours to take is held by another process.
    return due > 0 ? Math.min(due + 1, IDLE_MS) : 250;
  }

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      wakeUp = new AbortController();
      const pause = await takeDue().catch((error) => {
        log.warn({ err: error }, "no work can be taken; it is tried again");
        return 1_000;
      });
      await delay(pause, undefined, { signal: wakeUp.signal }).catch(() => {});
    }
  }

  /** Leases of what is under way are prolonged; a build whose lease was lost is another process's now. */
  async function renew(): Promise<void> {
    const ours = [...new Set([...inHand.keys(), ...builds.services()])];
    const held = new Set((await work.renew(pool, owner, ours)).map((row) => row.serviceId));
    await Promise.all(
      builds
        .services()
        .filter((id) => ours.includes(id) && !held.has(id))
        .map(builds.stop),
    );
  }

  /** The truth, where notifications were missed: what the runtime holds against what it should. */
  async function resync(): Promise<void> {
    const strays = await work.compare(pool, await runtime.list());
    for (const serviceId of strays) {
      log.info({ serviceId }, "the runtime held a service that is no more");
      await runtime.remove(serviceId);
    }
    wake();
  }

  const sweep = () => store.sweep(new Date(Date.now() - UPLOAD_SWEEP_MS), UPLOADS);
  const listener = await listenAsOwner({ url: deps.databaseUrl, owner, wake, log });
  const unwatch = runtime.watch((status) => poke(status.serviceId));
  await resync();
  const looping = loop();
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
      await looping;
      await Promise.race([
        Promise.all([...inHand.values(), ...timers]),
        delay(STOP_MS, undefined, { ref: false }),
      ]);
      await builds.stopAll();
      await work.releaseAll(pool, owner).catch(() => {});
      await listener.stop();
    },
  };
}

/** Runs `task` now and then, until the signal; a failure waits for the next time. */
async function every(
  ms: number,
  task: () => Promise<unknown>,
  signal: AbortSignal,
  log: Logger,
): Promise<void> {
  while (!signal.aborted) {
    await delay(ms, undefined, { signal, ref: false }).catch(() => {});
    if (signal.aborted) return;
    await task().catch((error) =>
      log.warn({ err: error }, "could not look after the services; it is tried again"),
    );
  }
}

/** Milliseconds to wait after a number of failures in a row. */
function pauseAfter(failed: number): number {
  return Math.min(30_000, 250 * 2 ** Math.min(failed, 10));
}
