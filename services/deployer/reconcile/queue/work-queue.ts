import { AsyncResource } from "node:async_hooks";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../../kit/log.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import * as sql from "./sql.ts";

export type WorkQueueDeps = {
  pool: Pool;
  log: Logger;
  /** Owner of this process's leases. */
  owner: number;
  /** Does what is to be done for a service; gives the milliseconds until it wants to look again. */
  step: (serviceId: string) => Promise<number | undefined>;
  /** Services on which something goes on in this process between steps: their leases are kept. */
  background: () => string[];
};

export type WorkQueue = ReturnType<typeof startWorkQueue>;

const BATCH = 50;
const IDLE_MS = 5_000;
/** Past it something that a step waits for hangs: another process may try. */
const STUCK_MS = 120_000;
/** How long steps under way may take when the process stops. */
const STOP_MS = 4_000;

/**
 * Takes due services by lease and steps each, one step at a time for a service. What becomes due during
 * its step is stepped again. A step that throws is tried again after a growing pause.
 */
export function startWorkQueue(deps: WorkQueueDeps) {
  const { pool, log, owner, step, background } = deps;
  const inHand = new Map<string, { done: Promise<void>; since: number }>();
  const again = new Set<string>();
  const failures = new Map<string, number>();
  let stopping = false;
  let wakeUp = new AbortController();
  const wake = () => wakeUp.abort();

  // Taking and giving back go one after the other: a lease that was just taken again is not given back.
  let turn: Promise<unknown> = Promise.resolve();
  function inTurn<T>(change: () => Promise<T>): Promise<T> {
    const mine = turn.then(change);
    turn = mine.catch(() => {});
    return mine;
  }

  async function handle(serviceId: string): Promise<void> {
    let wakeIn: number | undefined;
    try {
      do {
        again.delete(serviceId);
        wakeIn = await step(serviceId);
      } while (again.has(serviceId) && !stopping);
      if (!background().includes(serviceId)) failures.delete(serviceId);
    } catch (error) {
      wakeIn = pauseAfterFailure(serviceId);
      log.warn({ err: error, serviceId }, "could not go on with a service; it is tried again");
    }
    // What was left undone because the process stops is due for the next one.
    if (stopping) wakeIn = 0;
    await inTurn(async () => {
      inHand.delete(serviceId);
      await settle(serviceId, again.delete(serviceId) ? 0 : wakeIn);
    });
  }

  function begin(serviceId: string): void {
    inHand.set(serviceId, { done: handle(serviceId), since: Date.now() });
  }

  /** Takes a service in hand again without giving its lease back; `false` when that was lost. */
  async function goOn(serviceId: string): Promise<boolean> {
    const held = stopping ? 0 : await sql.resume(pool, owner, serviceId).catch(() => 0);
    if (held > 0) begin(serviceId);
    return held > 0;
  }

  /** Gives the lease back, unless something goes on in the background. */
  async function settle(serviceId: string, wakeIn: number | undefined): Promise<void> {
    const change = background().includes(serviceId) ? sql.wakeLater : sql.release;
    // If the database is away, the lease is found later: it is ours and not in hand.
    await change(pool, owner, serviceId, wakeIn).catch(() => {});
    // Later than that the loop looks by itself.
    if (wakeIn !== undefined && wakeIn < IDLE_MS) wake();
  }

  function pauseAfterFailure(serviceId: string): number {
    const failed = (failures.get(serviceId) ?? 0) + 1;
    failures.set(serviceId, failed);
    return Math.min(30_000, 250 * 2 ** Math.min(failed, 10));
  }

  async function takeDue(): Promise<number> {
    const taken = await inTurn(async () => {
      const claimed = await sql.claim(pool, owner, [...inHand.keys(), ...background()], BATCH);
      for (const { serviceId } of claimed) {
        if (inHand.has(serviceId)) again.add(serviceId);
        else begin(serviceId);
      }
      return claimed.length;
    });
    if (taken === BATCH) return 0;
    const due = (await sql.msUntilDue(pool)) ?? IDLE_MS;
    // What is due and was not ours to take is held by another process.
    return due > 0 ? Math.min(due + 1, IDLE_MS) : 250;
  }

  async function loop(): Promise<void> {
    while (!stopping) {
      wakeUp = new AbortController();
      const pause = await takeDue().catch((error) => {
        log.warn({ err: error }, "no work can be taken; it is tried again");
        return 1_000;
      });
      if (!stopping) await delay(pause, undefined, { signal: wakeUp.signal }).catch(() => {});
    }
  }
  const looping = loop();

  // Whoever notifies may be inside a transaction, which this is no part of.
  const enqueue = AsyncResource.bind((serviceId: string): void => {
    if (stopping) return;
    if (inHand.has(serviceId)) return void again.add(serviceId);
    sql.enqueue(pool, [serviceId]).catch((error) => log.warn({ err: error }, "a service waits for its turn"));
  });

  return {
    /** Looks for due services now. */
    wake,
    /** Makes a service due, for whoever holds it; one that is in hand here needs no word to others. */
    enqueue,
    /** What went on in the background of a service is over; `broken`: after a pause it is tried again. */
    ended(serviceId: string, broken: boolean): void {
      const wakeIn = broken ? pauseAfterFailure(serviceId) : 0;
      // Now, as its step may be over and its lease be given back before this has its turn.
      if (inHand.has(serviceId)) return void again.add(serviceId);
      void inTurn(async () => {
        if (inHand.has(serviceId)) again.add(serviceId);
        else if (broken || !(await goOn(serviceId))) await settle(serviceId, wakeIn);
      });
    },
    /** Prolongs the leases of what is under way; gives the services in the background that were lost. */
    async renew(): Promise<string[]> {
      const behind = background();
      const moving = [...inHand].filter(([, { since }]) => Date.now() - since < STUCK_MS).map(([id]) => id);
      const renewed = await sql.renew(pool, owner, [...new Set([...moving, ...behind])]);
      const held = new Set(renewed.map((row) => row.serviceId));
      return behind.filter((id) => !held.has(id));
    },
    /** Takes nothing more and waits for the steps under way, for a while. */
    async stop(): Promise<void> {
      stopping = true;
      wake();
      await looping;
      const steps = Promise.all([...inHand.values()].map((one) => one.done));
      await Promise.race([steps, delay(STOP_MS, undefined, { ref: false })]);
    },
  };
}
