import { AckPolicy, DeliverPolicy, type JsMsg } from "@nats-io/jetstream";
import { type MsgHdrs, headers as natsHeaders } from "@nats-io/transport-node";
import { isTransient, isTransientMessage } from "../failures.ts";
import { type Connected, DEAD_STREAM } from "./bus.ts";

/** Header with the reason why a consumer gave up. */
const REASON = "Berth-Reason";
/** Header with the class of the failure. */
const CLASS = "Berth-Class";
/** Header with the consumer that gave up. */
const CONSUMER = "Berth-Consumer";
/** Header with the consumer to which an event is sent again; the others have handled it. */
export const ONLY_FOR = "Berth-Only-For";

/** Publishes an event that a consumer gives up on, under `berth-dead.<consumer>.<subject>`. */
export async function publishDeadLetter(
  { js }: Connected,
  consumer: string,
  message: JsMsg,
  error: Error,
): Promise<void> {
  const headers = copyHeaders(message, ["Nats-Msg-Id"]);
  headers.set(REASON, error.message.replace(/[\r\n]+/g, " ").slice(0, 500));
  headers.set(CLASS, isTransient(error) ? "transient" : "permanent");
  headers.set(CONSUMER, consumer);
  await js.publish(`berth-dead.${consumer}.${message.subject}`, message.data, { headers });
}

/** Returns whether a dead letter tells of an outage. Letters of versions that stored no class are told by their reason. */
export function isTransientLetter(headers: MsgHdrs | undefined): boolean {
  const failure = headers?.get(CLASS);
  return failure ? failure === "transient" : isTransientMessage(headers?.get(REASON) ?? "");
}

/**
 * Sends dead letters of a consumer, or of all, to the consumer that gave up, under their original subject and event
 * id: those whose headers match. Returns how many. Running twice at the same time does no harm.
 */
export async function resendDeadLetters(
  { js, manager }: Connected,
  consumer = "*",
  matches: (headers: MsgHdrs | undefined) => boolean = () => true,
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
    if (!matches(message.headers)) continue;
    const headers = copyHeaders(message, [REASON, CLASS, CONSUMER]);
    const [, gaveUp, ...original] = message.subject.split(".");
    headers.set(ONLY_FOR, gaveUp!);
    await js.publish(original.join("."), message.data, { headers });
    await manager.streams.deleteMessage(DEAD_STREAM, message.seq).catch(() => {});
    sent++;
  }
  await manager.consumers.delete(DEAD_STREAM, name);
  return sent;
}

function copyHeaders(message: JsMsg, except: string[]): MsgHdrs {
  const headers = natsHeaders();
  for (const key of message.headers?.keys() ?? [])
    if (!except.includes(key)) headers.set(key, message.headers!.get(key));
  return headers;
}
