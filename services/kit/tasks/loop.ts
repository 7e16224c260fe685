import { setTimeout as delay } from "node:timers/promises";

export type Loop = {
  /** Ends the pause; during a run, one more follows it without a pause. */
  wake: () => void;
  /** Resolves when the run under way has ended; its signal aborts at once. */
  stop: () => Promise<void>;
};

/**
 * Runs `work`, which must not throw, again and again: after the pause that it returns (ms), or when it is woken. The
 * first run follows after `firstMs`. The pauses do not keep the process alive.
 */
export function startLoop(work: (signal: AbortSignal) => Promise<number>, firstMs = 0): Loop {
  const stopping = new AbortController();
  const { signal } = stopping;
  let pauseEnd = new AbortController();

  async function loop(): Promise<void> {
    let pauseMs = firstMs;
    while (!signal.aborted) {
      if (pauseMs > 0)
        await delay(pauseMs, undefined, { signal: pauseEnd.signal, ref: false }).catch(() => {});
      if (signal.aborted) return;
      // Before the run: what wakes during it may be about something that the run no longer sees.
      pauseEnd = new AbortController();
      pauseMs = await work(signal);
    }
  }
  const looping = loop();

  return {
    wake: () => pauseEnd.abort(),
    stop: () => {
      stopping.abort();
      pauseEnd.abort();
      return looping;
    },
  };
}
