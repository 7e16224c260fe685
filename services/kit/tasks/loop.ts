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
  let woken = false;
  let endPause = () => {};

  /** A timer and no abort signal: that costs an exception for each pause that ends early. */
  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async function loop(): Promise<void> {
    let pauseMs = firstMs;
    while (!signal.aborted) {
      if (pauseMs > 0 && !woken) await pause(pauseMs);
      if (signal.aborted) return;
      // Before the run: what wakes during it may be about something that the run no longer sees.
      woken = false;
      pauseMs = await work(signal);
    }
  }
  const looping = loop();

  function wake(): void {
    woken = true;
    endPause();
  }
  return {
    wake,
    stop: () => {
      stopping.abort();
      wake();
      return looping;
    },
  };
}
