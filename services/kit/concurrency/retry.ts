import { setTimeout as delay } from "node:timers/promises";

type RetryOptions = {
  /** The pause after a failure, in milliseconds. */
  everyMs: number;
  /** After how many milliseconds a failure is final. Unlimited by default. */
  forMs?: number;
  /** Which failures are followed by another try. All by default. */
  retryIf?: (error: unknown) => boolean;
  /** Called after each failure that is followed by another try, with the number of failures. */
  failed?: (error: unknown, failures: number) => void;
  signal?: AbortSignal;
};

/**
 * Runs `work` until it succeeds and returns its result. Throws the last error when the time is over or `retryIf` refuses
 * it, and an AbortError once the signal aborts. Written by hand because p-retry limits the number of tries, not the time.
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
