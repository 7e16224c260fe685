import { setTimeout as delay } from "node:timers/promises";

type PeriodicOptions = {
  /** Called with the error of a run, unless `stop` was called. */
  failed: (error: unknown) => void;
  /** Whether the first run comes before the first pause. */
  atOnce?: boolean;
};

/**
 * Runs `work` repeatedly, with pauses of `ms` milliseconds. The pauses do not keep the process alive. `stop` resolves
 * when a run that is under way has ended.
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
