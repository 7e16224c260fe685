import { setTimeout as delay } from "node:timers/promises";

type RetryOptions = {
  /** The pause after a failure, in milliseconds. */
  everyMs: number;
  /** How long it is tried, in milliseconds; without an end unless given. */
  forMs?: number;
  /** Which failures are worth another try; all unless given. */
  retryIf?: (error: unknown) => boolean;
  /** Called after each failure that is followed by another try, with their number. */
  failed?: (error: unknown, failures: number) => void;
  signal?: AbortSignal;
};

/**
 * Runs `work` until it succeeds and returns its result. Fails with the last error when the time is over or the error
 * is not worth another try, and with an AbortError once the signal aborts. By hand, as p-retry counts tries where
 * ours end by time or by signal.
 */
export async function retry<T>(work: () => Promise<T>, options: RetryOptions): Promise<T> {
  const { everyMs, forMs = Number.POSITIVE_INFINITY, retryIf = () => true, failed, signal } = options;
  const until = Date.now() + forMs;
  for (let failures = 1; ; failures++) {
    signal?.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      if (Date.now() >= until || !retryIf(error)) throw error;
      failed?.(error, failures);
    }
    await delay(everyMs, undefined, { signal });
  }
}
