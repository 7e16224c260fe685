import { DeliverPolicy } from "@nats-io/jetstream";
import { headers as natsHeaders } from "@nats-io/transport-node";
import { type Connected, DEAD_STREAM, STREAM } from "../../services/kit/events/bus.ts";

/** A message of a stream. */
type Kept = { subject: string; headers: [string, string][]; data: string };
/** The messages of a stream after `after`, up to `last`. */
export type Range = { stream: string; after: number; last: number };

const MESSAGE_MS = 30_000;

/**
 * Returns the sequence up to which every consumer has handled the events: what they changed is in the database. To be
 * called before the moment of the backup.
 */
export async function handledByAll({ manager }: Connected): Promise<number> {
  const { state } = await manager.streams.info(STREAM);
  let handled = state.last_seq;
  for await (const consumer of manager.consumers.list(STREAM)) {
    if (!consumer.config.durable_name) continue;
    const idle = consumer.num_pending === 0 && consumer.num_ack_pending === 0;
    if (!idle) handled = Math.min(handled, consumer.ack_floor.stream_seq);
  }
  return handled;
}

/** Returns what the streams hold at this moment beyond what is handled: events under way, and dead letters. */
export async function readRanges({ manager }: Connected, handled: number): Promise<Range[]> {
  const ranges = [];
  for (const [stream, from] of [
    [STREAM, handled],
    [DEAD_STREAM, 0],
  ] as const) {
    const { state } = await manager.streams.info(stream);
    ranges.push({ stream, after: Math.max(from, state.first_seq - 1), last: state.last_seq });
  }
  return ranges;
}

/** Yields the messages of a range as JSON. */
export async function* readMessages(
  { js }: Connected,
  { stream, after, last }: Range,
): AsyncGenerator<string> {
  if (after >= last) return;
  const consumer = await js.consumers.get(stream, {
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: after + 1,
  });
  if ((await consumer.info()).num_pending === 0) return;
  for (;;) {
    const message = await consumer.next({ expires: MESSAGE_MS });
    if (!message) throw new Error(`the messages of the stream ${stream} cannot be read`);
    if (message.seq > last) return;
    const headers = (message.headers?.keys() ?? []).map((key): [string, string] => [
      key,
      message.headers!.get(key),
    ]);
    const kept: Kept = {
      subject: message.subject,
      headers,
      data: Buffer.from(message.data).toString("base64"),
    };
    yield JSON.stringify(kept);
    if (message.seq === last || message.info.pending === 0) return;
  }
}

/** Removes the streams with their consumers, which are at positions of what is lost. */
export async function removeStreams({ manager }: Connected): Promise<void> {
  for (const stream of [STREAM, DEAD_STREAM]) await manager.streams.delete(stream);
}

/** Publishes messages again. Consumers begin anew, and recognise what they have handled. */
export async function writeMessages({ js }: Connected, lines: AsyncIterable<string>): Promise<void> {
  for await (const line of lines) {
    const { subject, headers: kept, data } = JSON.parse(line) as Kept;
    const headers = natsHeaders();
    for (const [key, value] of kept) headers.set(key, value);
    await js.publish(subject, Buffer.from(data, "base64"), { headers });
  }
}
