import { setTimeout as delay } from "node:timers/promises";

type PeriodicOptions = {
  /** Called with what a run throws, unless it was stopped. */
  failed: (error: unknown) => void;
  /** Begins with a run instead of a pause. */
  atOnce?: boolean;
};

/**
 * Runs `work` again and again, with pauses of `ms` milliseconds. It does not keep the process alive. `stop` resolves
 * when the run that is under way has ended.
 */
export function every(ms: number, work: () => Promise<unknown>, { failed, atOnce }: PeriodicOptions) {
  const stopping = new AbortController();
  const { signal } = stopping;
  const pause = () => delay(ms, undefined, { signal, ref: false }).catch(() => {});
  async function run(): Promise<void> {
    if (!atOnce) await pause();
    while (!signal.aborted) {
      await work().catch((error) => signal.aborted || failed(error));
      await pause();
    }
  }
  const running = run();
  return {
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}
