import { unavailable } from "../rpc/refusals.ts";

/** How long a stream waits until its set was read. */
const READ_MS = 10_000;

/** Waits for what is read in the background. Throws 503 when that takes too long, or `signal` aborts. */
export function orUnavailable(reading: Promise<void>, signal: AbortSignal): Promise<void> {
  const late = AbortSignal.any([signal, AbortSignal.timeout(READ_MS)]);
  return new Promise((resolve, reject) => {
    const refuse = () => reject(unavailable());
    if (late.aborted) refuse();
    else late.addEventListener("abort", refuse, { once: true });
    reading.then(resolve, reject).finally(() => late.removeEventListener("abort", refuse));
  });
}
