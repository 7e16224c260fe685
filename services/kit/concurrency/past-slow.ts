/** A delivery that takes longer than this holds up no other. */
const SLOW_MS = 2_000;
const STOP_MS = 5_000;

/**
 * Keeps work under way: `atOnce` at the same time besides what is slow, and `most` in all. `wake` is called whenever there
 * is room again.
 */
export function createPastSlow({ atOnce, most }: { atOnce: number; most: number }, wake: () => void) {
  const underWay = new Set<Promise<void>>();
  let slow = 0;
  return {
    /** Returns how much more may begin. */
    room: () => Math.max(0, Math.min(atOnce + slow, most) - underWay.size),
    /** Begins work, which must not reject. */
    begin(work: Promise<void>): void {
      let isSlow = 0;
      const timer = setTimeout(() => {
        slow += isSlow = 1;
        wake();
      }, SLOW_MS);
      const watched: Promise<void> = work.finally(() => {
        clearTimeout(timer);
        slow -= isSlow;
        underWay.delete(watched);
        wake();
      });
      underWay.add(watched);
    },
    /** Waits until `ended`, and then what is under way, is done, but 5 s at most. */
    async settle(ended: Promise<void>): Promise<void> {
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, STOP_MS);
      await Promise.race([ended.then(() => Promise.all(underWay)), late]);
      clearTimeout(timer);
    },
  };
}
