import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import { AckPolicy, DeliverPolicy, type JsMsg } from "@nats-io/jetstream";
import { headers as natsHeaders } from "@nats-io/transport-node";
import { SpanKind } from "@opentelemetry/api";
import { count, type Pool, type Tx, transaction } from "./db.ts";
import type { Logger } from "./log.ts";
import { type Bus, type Connected, STREAM } from "./nats.ts";
import { EVENT_ID } from "./outbox.ts";
import { traced } from "./telemetry.ts";

/** What a consumer does with one kind of event: `begin` decodes and prepares, its result is the effect. */
export type Handler = { event: string; begin: (payload: Uint8Array) => Promise<Effect> };

/** The effect of one event, in the transaction that also remembers the event. */
type Effect = (tx: Tx) => Promise<void>;

/** A handler of an event that needs more than the event tells. */
export type Phases<Event, Prepared> = {
  /** Runs before any transaction, once for each delivery: here other services and the pool can be asked. */
  prepare: (event: Event) => Promise<Prepared>;
  handle: (tx: Tx, event: Event, prepared: Prepared) => Promise<void>;
};

/** A typed handler of one event message. What has an effect gets the transaction, and nothing else works in it. */
export function on<S extends DescMessage, Prepared = undefined>(
  schema: S,
  handler: Phases<MessageShape<S>, Prepared> | ((tx: Tx, event: MessageShape<S>) => Promise<void>),
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

export type ConsumerOptions = {
  bus: Bus;
  pool: Pool;
  log: Logger;
  /** Name of the durable consumer, `<consuming service>-<from>`. */
  name: string;
  /** The service whose events are consumed, or `*`. */
  from: string;
  handlers: Handler[];
  /** First pause before an event is tried again; it doubles up to 30 s. */
  retryMs?: number;
};

const MAX_TRIES = 10;
const INBOX_DAYS = 14;

/**
 * Handles events in order, each exactly once: the handler's effects and the inbox row are one
 * transaction. An event whose handler fails is tried again with growing pauses; after 10 tries it
 * goes to `berth-dead.<name>.<subject>` with the reason, and `npm run replay` can send it again.
 */
export function startConsumer(options: ConsumerOptions) {
  const { bus, pool, log, name } = options;
  let stopped = false;
  let wake = () => {};
  let flowing = Promise.resolve();

  async function flow(connected: Connected): Promise<void> {
    await ensureConsumer(connected, name, options.from);
    const consumer = await connected.js.consumers.get(STREAM, name);
    const waiting: JsMsg[] = [];
    let open = true;
    const callback = (message: JsMsg) => {
      waiting.push(message);
      wake();
    };
    const messages = await consumer.consume({ max_messages: 100, callback });
    void messages.closed().finally(() => {
      open = false;
      wake();
    });
    while (open && !stopped) {
      if (waiting.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      else await handle(connected, options, waiting.splice(0));
    }
    messages.stop();
    for (const message of waiting) message.nak();
  }

  async function run(): Promise<void> {
    const connected = await bus.connected;
    while (!stopped) {
      try {
        flowing = flow(connected);
        await flowing;
      } catch (error) {
        if (!stopped) log.warn({ err: error, consumer: name }, "events are not flowing");
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    }
  }
  void run();
  const sweep = setInterval(() => {
    const text = "delete from inbox where at < now() - make_interval(days => $1)";
    count(pool, "inbox_sweep", text, [INBOX_DAYS]).catch(() => {});
  }, 3_600_000);
  sweep.unref();
  return {
    /** Ends after the events that are under way; those not begun are given back. */
    stop: async () => {
      stopped = true;
      clearInterval(sweep);
      wake();
      await flowing.catch(() => {});
    },
  };
}

async function ensureConsumer({ manager }: Connected, name: string, from: string): Promise<void> {
  const exists = await manager.consumers.info(STREAM, name).then(
    () => true,
    () => false,
  );
  if (exists) return;
  await manager.consumers.add(STREAM, {
    durable_name: name,
    filter_subject: `berth.${from}.v1.>`,
    ack_policy: AckPolicy.Explicit,
    deliver_policy: DeliverPolicy.All,
    // Longer than any handler, and what a killed process had under way waits no longer.
    ack_wait: 20e9,
    max_ack_pending: 100,
  });
}

type Begun = { message: JsMsg; effect: Effect | undefined };

/** Prepares what arrived together; what cannot be prepared is given back alone. */
async function handle(connected: Connected, options: ConsumerOptions, messages: JsMsg[]): Promise<void> {
  const begun = await Promise.allSettled(messages.map((message) => begin(options, message)));
  const ready: Begun[] = [];
  for (const [index, outcome] of begun.entries()) {
    const message = messages[index]!;
    if (outcome.status === "fulfilled") ready.push({ message, effect: outcome.value });
    else await giveBack(connected, options, message, outcome.reason as Error);
  }
  if (ready.length > 0) await commit(connected, options, ready);
}

function begin({ handlers }: ConsumerOptions, message: JsMsg): Promise<Effect | undefined> {
  const event = message.subject.split(".")[3]!;
  return handlers.find((h) => h.event === event)?.begin(message.data) ?? Promise.resolve(undefined);
}

/**
 * The effects of several events are one transaction, which pays for one commit; when any of it fails, each
 * event is handled alone.
 */
async function commit(connected: Connected, options: ConsumerOptions, ready: Begun[]): Promise<void> {
  try {
    await transaction(options.pool, async (tx) => {
      for (const one of ready) await once(tx, options, one);
    });
    for (const { message } of ready) message.ack();
  } catch (error) {
    if (ready.length === 1) return giveBack(connected, options, ready[0]!.message, error as Error);
    for (const one of ready) await commit(connected, options, [one]);
  }
}

/** The handler's effect and the inbox row, unless the event was handled before. */
async function once(tx: Tx, { name }: ConsumerOptions, { message, effect }: Begun): Promise<void> {
  const id = message.headers?.get(EVENT_ID) ?? "";
  if (!effect || !id) return;
  const carrier = { traceparent: message.headers?.get("traceparent") || undefined };
  await traced(`consume ${message.subject.split(".")[3]}`, SpanKind.CONSUMER, carrier, async () => {
    const fresh = await count(
      tx,
      "inbox_insert",
      "insert into inbox (consumer, event_id) values ($1, $2) on conflict do nothing",
      [name, id],
    );
    if (fresh === 1) await effect(tx);
  });
}

async function giveBack(
  { js }: Connected,
  options: ConsumerOptions,
  message: JsMsg,
  error: Error,
): Promise<void> {
  const [eventId, tries] = [message.headers?.get(EVENT_ID), message.info.deliveryCount];
  options.log.error(
    { err: error, consumer: options.name, subject: message.subject, eventId, tries },
    "event failed",
  );
  if (tries < MAX_TRIES) {
    message.nak(Math.min((options.retryMs ?? 500) * 2 ** (tries - 1), 30_000));
    return;
  }
  const headers = natsHeaders();
  for (const key of message.headers?.keys() ?? []) headers.set(key, message.headers!.get(key));
  headers.delete("Nats-Msg-Id");
  headers.set("Berth-Reason", error.message.replace(/[\r\n]+/g, " ").slice(0, 500));
  headers.set("Berth-Consumer", options.name);
  await js.publish(`berth-dead.${options.name}.${message.subject}`, message.data, { headers });
  message.term();
}
