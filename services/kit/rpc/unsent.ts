import { setTimeout as delay } from "node:timers/promises";

const PAUSES_MS = [0, 100, 200];

/**
 * Makes a call, and makes it again for 300 ms while no process accepts its connection: in a roll-out some ways lead to a
 * process that is gone. Any call may be made again that was not sent.
 */
export async function retryUnsent<T>(call: () => Promise<T>): Promise<T> {
  for (const pause of PAUSES_MS) {
    try {
      return await call();
    } catch (error) {
      if (!isRefused(error)) throw error;
      await delay(pause);
    }
  }
  return call();
}

/** Returns whether it is a refused connection, or was caused by one. */
function isRefused(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (error as NodeJS.ErrnoException).code === "ECONNREFUSED" || isRefused(error.cause);
}
