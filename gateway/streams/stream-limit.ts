import { newId } from "../../services/kit/ids.ts";
import type { Logger } from "../../services/kit/log.ts";
import type { Pool } from "../../services/kit/postgres/db.ts";
import { startTask } from "../../services/kit/tasks/task.ts";
import { RENEW_SLOTS } from "../tasks.ts";
import { claimSlot, countSlots, releaseSlot, renewSlots, type Slot } from "./sql.ts";

const LEASE_MS = 30_000;

/** A slot that a stream holds; `release` may be called more than once. */
type HeldSlot = { release: () => void };

export type StreamSlots = ReturnType<typeof createStreamSlots>;

/**
 * Limits how many streams each user, and each account, has open on all gateways together; a limit of 0 is none. The slots of a killed
 * gateway are free after 30 s. While the store is unreachable each gateway counts alone.
 */
export function createStreamSlots(options: { limit: number; pool: Pool; log: Logger }) {
  const { limit, pool, log } = options;
  const held = new Set<Slot>();
  const releases = new Set<Promise<unknown>>();
  let storeUnreachable = false;

  const countOwn = (who: string) => [...held].filter((slot) => slot.who === who).length;

  function countAlone(error: unknown): void {
    if (!storeUnreachable) log.warn({ err: error }, "this gateway counts streams on its own");
    storeUnreachable = true;
  }

  async function claim(slot: Slot, most: number): Promise<boolean> {
    // A stream that loses a slot to another tries the next one; in each round one of them wins.
    for (let round = 0; round < most; round++) {
      if (await claimSlot(pool, slot, most, LEASE_MS)) return true;
      if ((await countSlots(pool, slot.who)) >= most) return false;
    }
    return false;
  }

  async function renew(): Promise<void> {
    if (held.size === 0) return;
    await renewSlots(pool, [...held], LEASE_MS);
    storeUnreachable = false;
  }

  function release(slot: Slot): void {
    if (!held.delete(slot)) return;
    const done: Promise<unknown> = releaseSlot(pool, slot)
      .catch(() => {}) // it is free when its lease ends
      .finally(() => releases.delete(done));
    releases.add(done);
  }

  const renewing = startTask(RENEW_SLOTS, renew, { log });

  return {
    limit,
    /** Resolves to a slot, or to undefined when the subject has all it may have: `times` the limit. */
    async acquire(who: string, times = 1): Promise<HeldSlot | undefined> {
      const most = limit * times;
      if (most === 0) return { release: () => {} };
      const slot = { who, holder: newId("req") };
      const own = countOwn(who);
      held.add(slot);
      const claimed = await claim(slot, most).catch((error: unknown) => {
        countAlone(error);
        return own < most;
      });
      if (claimed) return { release: () => release(slot) };
      held.delete(slot);
      return undefined;
    },
    /** Releases all slots of this gateway. */
    async stop(): Promise<void> {
      await renewing.stop();
      for (const slot of held) release(slot);
      await Promise.all(releases);
    },
  };
}
