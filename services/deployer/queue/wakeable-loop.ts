import { setTimeout as delay } from "node:timers/promises";

/** Runs `work`, which must not throw, again and again: after the pause that it returns (ms), or when it is woken. */
export function startWakeableLoop(work: () => Promise<number>) {
  let stopping = false;
  let wakeUp = new AbortController();
  async function loop(): Promise<void> {
    while (!stopping) {
      wakeUp = new AbortController();
      const pause = await work();
      if (!stopping) await delay(pause, undefined, { signal: wakeUp.signal }).catch(() => {});
    }
  }
  const looping = loop();
  return {
    /** Ends the pause; during a run, the next one follows without a pause. */
    wake: () => wakeUp.abort(),
    /** Resolves when the run in progress has ended. */
    async stop(): Promise<void> {
      stopping = true;
      wakeUp.abort();
      await looping;
    },
  };
}
