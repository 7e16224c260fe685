import { AckPolicy, DeliverPolicy } from "@nats-io/jetstream";
import { headers as natsHeaders } from "@nats-io/transport-node";
import { optionalText, readConfig, url } from "./config.ts";
import { createLog } from "./log.ts";
import { connectBus, DEAD_STREAM } from "./nats.ts";

/**
 * Sends dead letters again: `NATS_URL=… npm run replay [CONSUMER]`. Each goes to its original subject
 * under its event id, so that only the consumer that gave up handles it; the others remember it.
 */
export async function replay(natsUrl: string, consumer: string | undefined): Promise<number> {
  const bus = connectBus(natsUrl, "replay", createLog("replay", "error"));
  const { js, manager } = await bus.connected;
  const { name } = await manager.consumers.add(DEAD_STREAM, {
    filter_subject: `berth-dead.${consumer ?? "*"}.>`,
    ack_policy: AckPolicy.Explicit,
    deliver_policy: DeliverPolicy.All,
    inactive_threshold: 60e9,
  });
  const dead = await js.consumers.get(DEAD_STREAM, name);
  let sent = 0;
  for (;;) {
    const message = await dead.next({ expires: 1_000 });
    if (!message) break;
    const headers = natsHeaders();
    for (const key of message.headers?.keys() ?? [])
      if (!["Berth-Reason", "Berth-Consumer"].includes(key)) headers.set(key, message.headers!.get(key));
    await js.publish(message.subject.split(".").slice(2).join("."), message.data, { headers });
    await manager.streams.deleteMessage(DEAD_STREAM, message.seq);
    await message.ackAck();
    sent++;
  }
  await manager.consumers.delete(DEAD_STREAM, name);
  await bus.close();
  return sent;
}

if (import.meta.main) {
  const config = readConfig(process.env, {
    natsUrl: url("NATS_URL", ["nats", "tls"]),
    consumer: optionalText("CONSUMER"),
  });
  const sent = await replay(config.natsUrl, process.argv[2] ?? config.consumer);
  process.stdout.write(`${sent} events sent again\n`);
}
