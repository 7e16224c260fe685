import { setTimeout as delay } from "node:timers/promises";
import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import { AckPolicy, DeliverPolicy, type JsMsg } from "@nats-io/jetstream";
import { headers as natsHeaders } from "@nats-io/transport-node";
import { SpanKind } from "@opentelemetry/api";
import { every } from "../every.ts";
import type { Logger } from "../log.ts";
import { type Db, execute, one, type Pool, type Tx, transaction } from "../postgres/db.ts";
import { isAway, isPassing, isPassingReason } from "../rpc/errors.ts";
import { traced } from "../telemetry.ts";
import { type Bus, type Connected, STREAM } from "./bus.ts";
import { EVENT_ID } from "./outbox.ts";
import { ONLY_FOR, REASON, resend } from "./replay.ts";

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
  /** First delay before an event is tried again; it doubles up to 30 s. */
  retryMs?: number;
};

const RETRY_MS = 500;
const MAX_PAUSE_MS = 30_000;
/** As long as the database is away it is looked for this often. */
const MAX_OUTAGE_PAUSE_MS = 5_000;
const MAX_TRIES = 10;
const INBOX_DAYS = 14;
const SWEEP_MS = 3_600_000;

/**
 * Handles events in order, each exactly once: the handler's effects and the inbox row are one
 * transaction. An event whose handler fails is tried again with growing pauses; after 10 tries it
 * goes to `berth-dead.<name>.<subject>` with the reason, and `npm run replay` can send it again.
 *
 * Only the handler's own failures count as tries, wherever they happened. While the database is away the consumer
 * pauses; dead letters that tell of such a cause, which older versions wrote, are sent again by themselves.
 */
export function startConsumer(options: ConsumerOptions) {
  const { bus, pool, log, name } = options;
  const stopping = new AbortController();
  let wake = () => {};
  let flowing = Promise.resolve();
  let failures = 0;

  async function flow(connected: Connected): Promise<void> {
    await ensureConsumer(connected, name, options.from);
    const consumer = await connected.js.consumers.get(STREAM, name);
    const waiting: JsMsg[] = [];
    let underWay: JsMsg[] = [];
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
    try {
      while (open && !stopping.signal.aborted) {
        if (waiting.length === 0) await new Promise<void>((resolve) => (wake = resolve));
        underWay = waiting.splice(0);
        if (underWay.length === 0) continue;
        await handle(connected, options, underWay).then(goOn, (error) => waitOut(error, underWay, waiting));
      }
    } finally {
      messages.stop();
      // What was acknowledged or given back already stays so.
      for (const message of [...underWay, ...waiting]) message.nak();
    }
  }

  /** While the database is away events are given back, and those that come meanwhile wait for the next look. */
  async function waitOut(error: unknown, ...batches: JsMsg[][]): Promise<void> {
    if (!isAway(error)) throw error;
    if (failures === 0) log.warn({ err: error, consumer: name }, "events wait for the database");
    const ms = Math.min(pauseAfter(options, ++failures), MAX_OUTAGE_PAUSE_MS);
    for (const batch of batches) for (const message of batch.splice(0)) message.nak(ms);
    await delay(ms, undefined, { signal: stopping.signal }).catch(() => {});
  }

  function goOn(): void {
    if (failures > 0) sweepDead();
    failures = 0;
  }

  async function run(): Promise<void> {
    const connected = await bus.connected;
    sweepDead();
    while (!stopping.signal.aborted) {
      try {
        flowing = flow(connected);
        await flowing;
      } catch (error) {
        if (!stopping.signal.aborted) log.warn({ err: error, consumer: name }, "events are not flowing");
        await delay(RETRY_MS);
      }
    }
  }
  void run();

  function sweepDead(): void {
    bus.connected
      .then((connected) => resend(connected, name, isPassingReason))
      .then((sent) => sent > 0 && log.info({ consumer: name, sent }, "dead letters are sent again"))
      .catch((error) => log.warn({ err: error, consumer: name }, "dead letters wait"));
  }
  const sweep = every(SWEEP_MS, async () => deleteOld(pool).finally(sweepDead), { failed: () => {} });
  return {
    /** Ends after the events that are under way; those not begun are given back. */
    stop: async () => {
      stopping.abort();
      wake();
      await Promise.all([sweep.stop(), flowing.catch(() => {})]);
    },
  };
}

async function deleteOld(pool: Pool): Promise<void> {
  for (const table of ["inbox", "inbox_tries"]) {
    const text = `delete from ${table} where at < now() - make_interval(days => $1)`;
    await execute(pool, `${table}_sweep`, text, [INBOX_DAYS]);
  }
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

/** Prepares what arrived together; what cannot be prepared is given back alone. Throws when the database is away. */
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

async function begin({ name, handlers }: ConsumerOptions, message: JsMsg): Promise<Effect | undefined> {
  const { headers, subject, data } = message;
  const only = headers?.get(ONLY_FOR);
  if (!headers?.get(EVENT_ID) || (only && only !== name)) return undefined;
  return handlers.find(({ event }) => event === subject.split(".")[3])?.begin(data);
}

/**
 * The effects of several events are one transaction, which pays for one commit; when any of it fails, each
 * event is handled alone.
 */
async function commit(connected: Connected, options: ConsumerOptions, ready: Begun[]): Promise<void> {
  try {
    await transaction(options.pool, async (tx) => {
      for (const event of ready) await once(tx, options, event);
    });
    for (const { message } of ready) message.ack();
  } catch (error) {
    if (isAway(error)) throw error;
    if (ready.length === 1) return giveBack(connected, options, ready[0]!.message, error as Error);
    for (const event of ready) await commit(connected, options, [event]);
  }
}

/** The handler's effect and the inbox row, unless the event was handled before. */
async function once(tx: Tx, { name }: ConsumerOptions, { message, effect }: Begun): Promise<void> {
  if (!effect) return;
  const { headers, subject, info } = message;
  const carrier = { traceparent: headers?.get("traceparent") || undefined };
  await traced(`consume ${subject.split(".")[3]}`, SpanKind.CONSUMER, carrier, async () => {
    const key = [name, headers!.get(EVENT_ID)];
    const fresh = await execute(
      tx,
      "inbox_insert",
      "insert into inbox (consumer, event_id) values ($1, $2) on conflict do nothing",
      key,
    );
    if (fresh === 1) await effect(tx);
    if (info.deliveryCount > 1) await forgetTries(tx, key);
  });
}

/** For another try after a delay; as a dead letter when its handler failed too often. */
async function giveBack(
  { js }: Connected,
  options: ConsumerOptions,
  message: JsMsg,
  error: Error,
): Promise<void> {
  const { pool, log, name } = options;
  const eventId = message.headers!.get(EVENT_ID);
  const about = { err: error, consumer: name, subject: message.subject, eventId };
  if (isPassing(error)) {
    log.warn(about, "an event waits for what is away");
    return message.nak(pauseAfter(options, message.info.deliveryCount));
  }
  const tries = await countTry(pool, [name, eventId]);
  log.error({ ...about, tries }, "event failed");
  if (tries < MAX_TRIES) return message.nak(pauseAfter(options, tries));
  const headers = natsHeaders();
  for (const key of message.headers?.keys() ?? []) headers.set(key, message.headers!.get(key));
  headers.delete("Nats-Msg-Id");
  headers.set(REASON, error.message.replace(/[\r\n]+/g, " ").slice(0, 500));
  headers.set("Berth-Consumer", name);
  await js.publish(`berth-dead.${name}.${message.subject}`, message.data, { headers });
  message.term();
  // Whoever sends it again gives it as many tries.
  await forgetTries(pool, [name, eventId]);
}

function pauseAfter({ retryMs = RETRY_MS }: ConsumerOptions, failures: number): number {
  return Math.min(retryMs * 2 ** Math.min(Math.max(failures - 1, 0), 16), MAX_PAUSE_MS);
}

/** Counts a failure of an event's handler, for all replicas and past restarts; gives how many there were. */
async function countTry(pool: Pool, key: unknown[]): Promise<number> {
  const text = `insert into inbox_tries (consumer, event_id, tries) values ($1, $2, 1)
    on conflict (consumer, event_id) do update set tries = inbox_tries.tries + 1, at = now() returning tries`;
  return (await one<{ tries: number }>(pool, "inbox_try", text, key))!.tries;
}

function forgetTries(db: Db, key: unknown[]): Promise<number> {
  return execute(
    db,
    "inbox_tries_forget",
    "delete from inbox_tries where consumer = $1 and event_id = $2",
    key,
  );
}
