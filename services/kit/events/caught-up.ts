import { setTimeout as delay } from "node:timers/promises";
import { type Bus, STREAM } from "./bus.ts";

const WAIT_MS = 2_000;
const POLL_MS = 10;

/** Waits until a consumer has handled what the stream has now, for 2 s at most: NATS, or the consumer, may be away. */
export async function caughtUp(bus: Bus, consumer: string): Promise<void> {
  const late = new AbortController();
  const timeout = delay(WAIT_MS, undefined, { signal: late.signal }).catch(() => {});
  await Promise.race([timeout, follow(bus, consumer, late.signal).catch(() => {})]);
  late.abort();
}

async function follow(bus: Bus, consumer: string, late: AbortSignal): Promise<void> {
  const { manager } = await bus.connected;
  const { state } = await manager.streams.info(STREAM);
  while (!late.aborted) {
    const { ack_floor, num_pending, num_ack_pending } = await manager.consumers.info(STREAM, consumer);
    if (ack_floor.stream_seq >= state.last_seq || num_pending + num_ack_pending === 0) return;
    await delay(POLL_MS);
  }
}
