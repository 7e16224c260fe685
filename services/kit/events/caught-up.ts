import { setTimeout as delay } from "node:timers/promises";
import { type Bus, STREAM } from "./bus.ts";

const WAIT_MS = 2_000;
const POLL_MS = 10;

/**
 * Waits until a consumer has handled what the stream has now, but for events that failed and are tried again later.
 * Returns false after 2 s: NATS, or the consumer, may be away.
 */
export async function caughtUp(bus: Bus, consumer: string): Promise<boolean> {
  const late = new AbortController();
  const timeout = delay(WAIT_MS, false, { signal: late.signal }).catch(() => false);
  const done = await Promise.race([timeout, follow(bus, consumer, late.signal).catch(() => false)]);
  late.abort();
  return done;
}

async function follow(bus: Bus, consumer: string, late: AbortSignal): Promise<boolean> {
  const { manager } = await bus.connected;
  const { state } = await manager.streams.info(STREAM);
  while (!late.aborted) {
    const info = await manager.consumers.info(STREAM, consumer);
    const underWay = info.num_pending + info.num_ack_pending - info.num_redelivered;
    if (info.ack_floor.stream_seq >= state.last_seq || underWay <= 0) return true;
    await delay(POLL_MS);
  }
  return false;
}
