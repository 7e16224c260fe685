import { setImmediate as nextTurn } from "node:timers/promises";

const BREATH_MS = 20;

/**
 * Returns a function to be awaited between the steps of long work in memory: from time to time it lets the rest of the
 * process have its turn, such as the heartbeats by which it is known to be alive.
 */
export function takeBreaths(): () => Promise<void> {
  let last = performance.now();
  return async () => {
    if (performance.now() - last < BREATH_MS) return;
    await nextTurn();
    last = performance.now();
  };
}
