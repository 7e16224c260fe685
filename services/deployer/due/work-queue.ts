import { AsyncResource } from "node:async_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { Counter } from "prom-client";
import { createKeyedMutex } from "../../kit/concurrency/keyed-mutex.ts";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { type Next, startTask } from "../../kit/tasks/task.ts";
import { CLAIM } from "../tasks.ts";
import { createBackoff } from "./backoff.ts";
import * as sql from "./sql.ts";

export type WorkQueueDeps = {
  pool: Pool;
  log: Logger;
  /** Owner of this process's leases. */
  owner: number;
  /**
   * Does what a service needs now; returns the milliseconds until its next step. Calls `reading` each time before it reads
   * all that it decides by: what made the service due until then needs no other step.
   */
  step: (serviceId: string, reading: () => void) => Promise<number | undefined>;
  /** Returns the services that this process works on between steps, as by a build: their leases are kept. */
  background: () => string[];
};

export type WorkQueue = ReturnType<typeof startWorkQueue>;

const errors = new Counter({
  name: "berth_reconcile_errors_total",
  help: "Steps of services that failed and are repeated",
});

const BATCH = 50;
/** More steps at once would not end earlier: they would wait for connections, and those that wait too long fail. */
const MAX_IN_PROGRESS = 100;
/** A step that takes longer hangs: its lease is no longer prolonged, so that another process may try. */
const STUCK_MS = 120_000;
/** The pauses after steps that failed. */
const PAUSES = { firstMs: 500, maxMs: 30_000 };
/** How long a stop waits for steps in progress. */
const STOP_MS = 4_000;

/**
 * Leases due services and runs a step of each, one step at a time for a service. A service that becomes due during
 * its step gets another one. A step that throws is repeated after a growing pause.
 */
export function startWorkQueue(deps: WorkQueueDeps) {
  const { pool, log, owner, step, background } = deps;
  const inProgress = new Map<string, { done: Promise<void>; since: number }>();
  const again = new Set<string>();
  /** Services that are due, which the database does not know yet. */
  const gathered = new Set<string>();
  let isEnqueuing = false;
  const backoff = createBackoff(PAUSES);
  let stopping = false;

  // Claims and releases run one after the other, so that a lease that was just claimed again is not released.
  const leases = createKeyedMutex();
  const inTurn = <T>(change: () => Promise<T>) => leases.run("all", change);

  /** Steps until nothing more is asked for, then gives the lease up. */
  async function handle(serviceId: string): Promise<void> {
    let wakeIn: number | undefined;
    try {
      do {
        again.delete(serviceId);
        wakeIn = await step(serviceId, () => void again.delete(serviceId));
      } while (again.has(serviceId) && !stopping);
      if (!background().includes(serviceId)) backoff.succeeded(serviceId);
    } catch (error) {
      wakeIn = backoff.failed(serviceId);
      errors.inc();
      log.warn({ err: error, serviceId }, "a step of a service failed; it will be repeated");
    }
    // What a stop left undone is due for the next process.
    if (stopping) wakeIn = 0;
    await inTurn(async () => {
      const wasFull = inProgress.size >= MAX_IN_PROGRESS;
      inProgress.delete(serviceId);
      await releaseLease(serviceId, again.delete(serviceId) ? 0 : wakeIn);
      if (wasFull) claims.wake();
    });
  }

  function begin(serviceId: string): void {
    inProgress.set(serviceId, { done: handle(serviceId), since: Date.now() });
  }

  /** Begins another step under the lease that is held; returns `false` when that was lost. */
  async function stepAgain(serviceId: string): Promise<boolean> {
    const held = stopping ? 0 : await sql.resume(pool, owner, serviceId).catch(() => 0);
    if (held > 0) begin(serviceId);
    return held > 0;
  }

  /** Releases the lease, unless work on the service continues in the background. */
  async function releaseLease(serviceId: string, wakeIn: number | undefined): Promise<void> {
    const change = background().includes(serviceId) ? sql.keepLease : sql.release;
    // If the database is away, a later claim finds the lease: it is ours and not in progress.
    await change(pool, owner, serviceId, wakeIn).catch(() => {});
    // For what is due later, the loop claims in time by itself.
    if (wakeIn !== undefined && wakeIn < CLAIM.everyMs) claims.wake();
  }

  /** Claims due services and begins a step of each. When there is no room for more, the end of a step claims the next. */
  async function claimDue(): Promise<Next> {
    let room = 0;
    const count = await inTurn(async () => {
      room = Math.min(BATCH, MAX_IN_PROGRESS - inProgress.size);
      if (room <= 0) return 0;
      const claimed = await sql.claim(pool, owner, [...inProgress.keys(), ...background()], room);
      for (const { serviceId } of claimed) {
        if (inProgress.has(serviceId)) again.add(serviceId);
        else begin(serviceId);
      }
      return claimed.length;
    });
    if (room <= 0) return undefined;
    if (count === room) return "more";
    const due = await sql.msUntilDue(pool);
    if (due === undefined) return undefined;
    // What is due and could not be claimed is leased by another process.
    return { inMs: due > 0 ? due + 1 : 250 };
  }

  const claims = startTask(CLAIM, claimDue, { log });

  /** Makes all gathered services due: one statement at a time, however many services change at once. */
  async function enqueueGathered(): Promise<void> {
    if (isEnqueuing) return;
    isEnqueuing = true;
    while (gathered.size > 0) {
      const serviceIds = [...gathered];
      gathered.clear();
      await sql
        .enqueue(pool, serviceIds)
        .catch((error) =>
          log.warn({ err: error }, "services could not be enqueued; the next comparison does it"),
        );
    }
    isEnqueuing = false;
  }

  // The caller may be inside a transaction, which the statement is not part of.
  const enqueue = AsyncResource.bind((serviceId: string): void => {
    if (stopping) return;
    if (inProgress.has(serviceId)) return void again.add(serviceId);
    gathered.add(serviceId);
    void enqueueGathered();
  });

  return {
    /** Claims due services now. */
    wake: claims.wake,
    /** Makes a service due, whichever process leases it; one in progress here gets another step. */
    enqueue,
    /** Makes a service due whose background work has ended; after a pause if it is `broken`. */
    backgroundEnded(serviceId: string, broken: boolean): void {
      const wakeIn = broken ? backoff.failed(serviceId) : 0;
      // At once: its step may end and its lease be released before this would run.
      if (inProgress.has(serviceId)) return void again.add(serviceId);
      void inTurn(async () => {
        if (inProgress.has(serviceId)) again.add(serviceId);
        else if (broken || !(await stepAgain(serviceId))) await releaseLease(serviceId, wakeIn);
      });
    },
    /** Prolongs the leases of work in progress; returns the services in the background whose lease was lost. */
    async renew(): Promise<string[]> {
      const inBackground = background();
      const moving = [...inProgress]
        .filter(([, { since }]) => Date.now() - since < STUCK_MS)
        .map(([id]) => id);
      const renewed = await sql.renew(pool, owner, [...new Set([...moving, ...inBackground])]);
      const held = new Set(renewed.map((row) => row.serviceId));
      return inBackground.filter((id) => !held.has(id));
    },
    /** Claims nothing more and waits for the steps in progress, at most `STOP_MS`. */
    async stop(): Promise<void> {
      stopping = true;
      await claims.stop();
      const steps = Promise.all([...inProgress.values()].map((one) => one.done));
      await Promise.race([steps, delay(STOP_MS, undefined, { ref: false })]);
    },
  };
}
