import { causeOf } from "../failures.ts";
import { createLog } from "../log.ts";
import { type Connected, connectBus } from "./bus.ts";

/** How long a command waits for NATS, which may be starting or moving to another node. */
const REACHED_WITHIN_MS = 60_000;

/**
 * Calls `work` with a connection to NATS, which has the streams, and closes it: for commands, which end with the reason
 * where a process would keep trying.
 */
export async function withBus<T>(
  natsUrl: string,
  name: string,
  work: (connected: Connected) => Promise<T>,
  withinMs = REACHED_WITHIN_MS,
): Promise<T> {
  let failure: unknown;
  const bus = connectBus(natsUrl, name, createLog(name, "error"), (error) => {
    failure = error;
  });
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const why = failure === undefined ? "" : `: ${causeOf(failure)}`;
    late.reject(new Error(`NATS could not be reached within ${withinMs / 1_000} s${why}`));
  }, withinMs);
  try {
    const connected = await Promise.race([bus.connected, late.promise]);
    clearTimeout(timer);
    return await work(connected);
  } finally {
    clearTimeout(timer);
    await bus.close();
  }
}
