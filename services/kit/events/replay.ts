import { AckPolicy, DeliverPolicy } from "@nats-io/jetstream";
import { headers as natsHeaders } from "@nats-io/transport-node";
import { createLog } from "../log.ts";
import { optionalText, readConfig, url } from "../process/config.ts";
import { type Connected, connectBus, DEAD_STREAM } from "./bus.ts";

/** Why a consumer gave up on a dead letter. */
export const REASON = "Berth-Reason";
/** The consumer for which an event was sent again; others have handled it, and maybe forgotten that. */
export const ONLY_FOR = "Berth-Only-For";

/**
 * Sends dead letters of a consumer, or of all, to their original subject under their event id, for the consumer
 * that gave up; those that `wanted` takes by their reason. Gives how many. Twice at once does no harm.
 */
export async function resend(
  { js, manager }: Connected,
  consumer = "*",
  wanted: (reason: string) => boolean = () => true,
): Promise<number> {
  const subject = `berth-dead.${consumer}.>`;
  const { state } = await manager.streams.info(DEAD_STREAM, { subjects_filter: subject });
  let left = Object.values(state.subjects ?? {}).reduce((sum, count) => sum + count, 0);
  if (left === 0) return 0;
  const { name } = await manager.consumers.add(DEAD_STREAM, {
    filter_subject: subject,
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.All,
    inactive_threshold: 60e9,
    mem_storage: true,
  });
  const dead = await js.consumers.get(DEAD_STREAM, name);
  let sent = 0;
  for (; left > 0; left--) {
    const message = await dead.next({ expires: 1_000 });
    if (!message) break;
    if (!wanted(message.headers?.get(REASON) ?? "")) continue;
    const headers = natsHeaders();
    for (const key of message.headers?.keys() ?? [])
      if (![REASON, "Berth-Consumer"].includes(key)) headers.set(key, message.headers!.get(key));
    const [, gaveUp, ...original] = message.subject.split(".");
    headers.set(ONLY_FOR, gaveUp!);
    await js.publish(original.join("."), message.data, { headers });
    await manager.streams.deleteMessage(DEAD_STREAM, message.seq).catch(() => {});
    sent++;
  }
  await manager.consumers.delete(DEAD_STREAM, name);
  return sent;
}

/** Sends dead letters again: `NATS_URL=… npm run replay [CONSUMER]`. */
export async function replay(natsUrl: string, consumer: string | undefined): Promise<number> {
  const bus = connectBus(natsUrl, "replay", createLog("replay", "error"));
  const sent = await resend(await bus.connected, consumer);
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
