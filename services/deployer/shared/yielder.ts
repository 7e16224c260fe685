import { setImmediate as nextTurn } from "node:timers/promises";

const YIELD_EVERY_MS = 20;

/**
 * Returns a function to await between the steps of long work in memory: every 20 ms it yields to the event loop, so that
 * timers run in time, such as the heartbeats by which this process is known to be alive.
 */
export function createYielder(): () => Promise<void> {
  let last = performance.now();
  return async () => {
    if (performance.now() - last < YIELD_EVERY_MS) return;
    await nextTurn();
    last = performance.now();
  };
}
