/** How often a pooler that starts is looked at: it does not report that it serves. */
export const POOLER_MS = 5_000;
const MAX_PAUSE_MS = 300_000;

/**
 * Knows when poolers that do not serve yet are looked at again: often at first, and less often the longer one does not
 * start, as for want of its image. A process that begins, or takes over, looks at once. `now` is in ms.
 */
export function createPoolerPauses(now: () => number = performance.now.bind(performance)) {
  const starting = new Map<string, { since: number; again: number }>();
  return {
    /** Records that the pooler of a service was looked at and does not serve. */
    waits(serviceId: string): void {
      const at = now();
      const since = starting.get(serviceId)?.since ?? at;
      const pause = Math.min(Math.max((at - since) / 10, POOLER_MS), MAX_PAUSE_MS);
      starting.set(serviceId, { since, again: at + pause });
    },
    /** Forgets it: it serves, or is gone. */
    ends: (serviceId: string) => void starting.delete(serviceId),
    /** Returns for how long it is not looked at, in ms. */
    msOf: (serviceId: string) => Math.max(0, (starting.get(serviceId)?.again ?? 0) - now()),
  };
}
