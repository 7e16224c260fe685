import { newId } from "../../services/kit/ids.ts";
import type { Logger } from "../../services/kit/log.ts";
import type { Pool } from "../../services/kit/postgres/db.ts";
import { freePlace, heldPlaces, holdPlaces, type Place, takePlace } from "./sql.ts";

const LEASE_MS = 30_000;
const RENEW_MS = 10_000;

/** A place that a stream holds; `free` may be called more than once. */
export type Slot = { free: () => void };

export type StreamSlots = ReturnType<typeof createStreamSlots>;

/**
 * How many streams each caller has open, counted together with all other gateways; a limit of 0 is none.
 * The places of a gateway that is killed are free after 30 s. While the store is away each gateway counts
 * for itself.
 */
export function createStreamSlots(options: { limit: number; pool: Pool; log: Logger }) {
  const { limit, pool, log } = options;
  const held = new Set<Place>();
  const freeing = new Set<Promise<unknown>>();

  const ownOf = (who: string) => [...held].filter((place) => place.who === who).length;

  async function shared(place: Place): Promise<boolean> {
    // Whoever loses a place to another tries the next one; each round somebody gets one.
    for (let round = 0; round < limit; round++) {
      if (await takePlace(pool, place, limit, LEASE_MS)) return true;
      if ((await heldPlaces(pool, place.who)) >= limit) return false;
    }
    return false;
  }

  function free(place: Place): void {
    if (!held.delete(place)) return;
    const done: Promise<unknown> = freePlace(pool, place)
      .catch(() => {}) // it is free when its time is over
      .finally(() => freeing.delete(done));
    freeing.add(done);
  }

  const renewing = setInterval(() => {
    if (held.size > 0)
      holdPlaces(pool, [...held], LEASE_MS).catch((error) =>
        log.warn({ err: error }, "streams are counted by this gateway alone"),
      );
  }, RENEW_MS).unref();

  return {
    limit,
    /** Undefined when the caller has all it may have. */
    async take(who: string): Promise<Slot | undefined> {
      if (limit === 0) return { free: () => {} };
      const place = { who, holder: newId("req") };
      const own = ownOf(who);
      held.add(place);
      const taken = await shared(place).catch((error: unknown) => {
        log.warn({ err: error }, "streams are counted by this gateway alone");
        return own < limit;
      });
      if (taken) return { free: () => free(place) };
      held.delete(place);
      return undefined;
    },
    /** Frees what is held. */
    async stop(): Promise<void> {
      clearInterval(renewing);
      for (const place of held) free(place);
      await Promise.all(freeing);
    },
  };
}
