import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { headers as natsHeaders } from "@nats-io/transport-node";
import { connectBus, DEAD_STREAM, STREAM } from "../events/bus.ts";
import { EVENT_ID } from "../events/outbox.ts";
import { newId } from "../ids.ts";
import { createLog } from "../log.ts";

/** The events on a NATS server, as services exchange them. */
export async function openEvents(url: string) {
  const bus = connectBus(url, "test", createLog("test", "silent"));
  const { nc, js, manager } = await bus.connected;
  return {
    nc,
    js,
    manager,
    /** Publishes an event of a service, as its relay would. */
    async publish<S extends DescMessage>(
      from: "billing" | "deployer" | "identity" | "variables",
      schema: S,
      accountId: string,
      event: MessageInitShape<S>,
      eventId = newId("evt"),
    ): Promise<void> {
      const headers = natsHeaders();
      headers.set(EVENT_ID, eventId);
      const subject = `berth.${from}.v1.${schema.name}.${accountId}`;
      await js.publish(subject, toBinary(schema, create(schema, event)), { headers });
    },
    /** Returns the events under a subject that the stream has, oldest first. */
    async kept<S extends DescMessage>(subject: string, schema: S): Promise<MessageShape<S>[]> {
      const consumer = await js.consumers.get(STREAM, { filter_subjects: subject });
      const { num_pending } = await consumer.info();
      if (num_pending === 0) return [];
      const found: MessageShape<S>[] = [];
      for await (const message of await consumer.fetch({ max_messages: num_pending, expires: 5_000 }))
        found.push(fromBinary(schema, message.data));
      return found;
    },
    /** Returns how many events were given up. */
    deadLetters: async () => (await manager.streams.info(DEAD_STREAM)).state.messages,
    close: () => bus.close(),
  };
}
