import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import type { Tx } from "../postgres/db.ts";

/** What an event changes, in the transaction that also records the event in the inbox. */
export type Effect = (tx: Tx) => Promise<void>;

/** A handler of one kind of event: `begin` decodes and prepares an event and returns its effect. */
export type Handler = { event: string; begin: (payload: Uint8Array) => Promise<Effect> };

/** A handler that needs more than the event carries. */
type PreparedHandler<Event, Prepared> = {
  /** Runs before the transaction, once for each delivery. It may ask other services and use the pool. */
  prepare: (event: Event) => Promise<Prepared>;
  handle: (tx: Tx, event: Event, prepared: Prepared) => Promise<void>;
};

/** Returns the handler of an event message. Effects go through the transaction and nothing else. */
export function on<S extends DescMessage, Prepared = undefined>(
  schema: S,
  handler: PreparedHandler<MessageShape<S>, Prepared> | ((tx: Tx, event: MessageShape<S>) => Promise<void>),
): Handler {
  return {
    event: schema.name,
    async begin(payload) {
      const event = fromBinary(schema, payload);
      if (typeof handler === "function") return (tx) => handler(tx, event);
      const prepared = await handler.prepare(event);
      return (tx) => handler.handle(tx, event, prepared);
    },
  };
}
