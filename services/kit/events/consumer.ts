import { setTimeout as delay } from "node:timers/promises";
import {
  AckPolicy,
  type ConsumerInfo,
  type ConsumerMessages,
  DeliverPolicy,
  type JsMsg,
} from "@nats-io/jetstream";
import { SpanKind } from "@opentelemetry/api";
import { isTransient, isUnreachable } from "../failures.ts";
import type { Logger } from "../log.ts";
import { type Pool, type Tx, transaction } from "../postgres/db.ts";
import { startLoop } from "../tasks/loop.ts";
import { CONSUME, SWEEP_INBOX } from "../tasks/shared-tasks.ts";
import { startTask } from "../tasks/task.ts";
import { traced } from "../telemetry.ts";
import { type Bus, CHECK_MS, type Connected, isMissing, STREAM, type StreamState } from "./bus.ts";
import { isTransientLetter, ONLY_FOR, publishDeadLetter, resendDeadLetters } from "./dead-letters.ts";
import { createHandledKinds, type HandledKinds } from "./handled-kinds.ts";
import type { Effect, Handler } from "./handler.ts";
import * as sql from "./inbox-sql.ts";
import { deadLetters } from "./metrics.ts";
import { EVENT_ID } from "./outbox.ts";

/** What a service consumes of another. */
export type ConsumerDefinition = {
  /** The name of the durable consumer, `<consuming service>-<from>`. */
  name: string;
  /** The service whose events are consumed, or `*`. */
  from: string;
  handlers: Handler[];
  /**
   * How old the first events may be that a new consumer handles, for one to which the past does not matter. Without it,
   * a new consumer handles all that the stream has.
   */
  firstSeconds?: number;
};

type ConsumerOptions = ConsumerDefinition & {
  bus: Bus;
  pool: Pool;
  log: Logger;
  /** The first pause before an event is tried again; it doubles up to 30 s. */
  retryMs?: number;
};

const RETRY_MS = 500;
const MAX_PAUSE_MS = 30_000;
/** The longest pause while the database is unreachable. */
const MAX_OUTAGE_PAUSE_MS = 5_000;
const MAX_FAILURES = 10;
const INBOX_DAYS = 14;

/**
 * Handles events in order, each exactly once: the handler's effect and the inbox row are one transaction. An event
 * whose handler fails is tried again with growing pauses. After 10 failures it becomes a dead letter, published under
 * `berth-dead.<name>.<subject>` with the reason.
 *
 * Only failures of the handler itself count (docs/events.md#dead-letters). While the database is unreachable the
 * consumer pauses. Dead letters that older versions wrote because of an outage are sent again automatically.
 */
export function startConsumer(options: ConsumerOptions) {
  const { bus, pool, log, name } = options;
  deadLetters.inc({ consumer: name }, 0);
  const kinds = createHandledKinds(options);
  const stopping = Promise.withResolvers<undefined>();
  let connected: Connected | undefined;
  let reception: Reception | undefined;
  let outageFailures = 0;
  /** Up to which sequence all is handled, as far as this process knows; a consumer that is lost goes on there. */
  let handled = 0;
  /** Whether the consumer was there when it was looked for last. */
  let flows = false;

  /** Begins to receive events. */
  async function receive(connected: Connected): Promise<Reception> {
    const { metadata } = kinds;
    const info = await ensureConsumer(connected, { ...options, metadata }, await bus.check(), handled);
    const { created } = info;
    await kinds.compare(connected.manager, info);
    const consumer = await connected.js.consumers.get(STREAM, name);
    const waiting: JsMsg[] = [];
    const callback = (message: JsMsg) => {
      waiting.push(message);
      task.wake();
    };
    const messages = await consumer.consume({ max_messages: 100, callback, abort_on_missing_resource: true });
    const begun: Reception = { waiting, open: true, end };
    const closed = () => {
      begun.open = false;
      // One that was given up after a failure ends neither the pause that follows nor what flows since.
      if (reception !== begun) return;
      flows = false;
      task.wake();
    };
    void messages.closed().then(closed, closed);
    const looks = startLoop(async () => {
      await look(connected, created, begun, messages).catch((error) => {
        flows = false;
        if (isMissing(error)) messages.stop();
      });
      return CHECK_MS;
    });
    function end(underWay: JsMsg[] = []): void {
      void looks.stop();
      messages.stop();
      // Has no effect on messages that were acknowledged or returned already.
      for (const message of [...underWay, ...waiting.splice(0)]) message.nak();
    }
    return begun;
  }

  /** Looks whether the consumer is the one whose events are received. */
  async function look(
    { manager }: Connected,
    created: string,
    begun: Reception,
    messages: ConsumerMessages,
  ): Promise<void> {
    const info = await manager.consumers.info(STREAM, name);
    if (info.created !== created) return messages.stop();
    await kinds.compare(manager, info);
    handled = info.ack_floor.stream_seq;
    flows = begun.open;
  }

  /** Handles what has arrived. */
  async function handleWaiting(signal: AbortSignal): Promise<void> {
    connected ??= await Promise.race([bus.connected, stopping.promise]);
    if (!connected) return;
    if (!reception?.open) {
      reception?.end();
      reception = undefined;
      reception = await receive(connected);
    }
    const underWay = reception.waiting.splice(0);
    if (underWay.length === 0) return;
    try {
      if (await handleBatch(connected, { ...options, kinds }, underWay)) endOutage();
    } catch (error) {
      if (isUnreachable(error)) await pauseForOutage(signal, underWay, reception.waiting);
      else {
        const failed = reception;
        reception = undefined;
        flows = false;
        failed.end(underWay);
      }
      throw error;
    }
  }

  /** Returns events to the stream while the database is unreachable. */
  async function pauseForOutage(signal: AbortSignal, ...batches: JsMsg[][]): Promise<void> {
    const ms = Math.min(pauseAfter(options, ++outageFailures), MAX_OUTAGE_PAUSE_MS);
    for (const batch of batches) for (const message of batch.splice(0)) message.nak(ms);
    await delay(ms, undefined, { signal }).catch(() => {});
  }

  function endOutage(): void {
    if (outageFailures > 0) resendAfterOutage();
    outageFailures = 0;
  }

  function resendAfterOutage(): void {
    bus.connected
      .then((connected) => resendDeadLetters(connected, name, isTransientLetter))
      .then((sent) => sent > 0 && log.info({ consumer: name, sent }, "dead letters were sent again"))
      .catch((error) => log.warn({ err: error, consumer: name }, "dead letters could not be sent again"));
  }
  async function sweep(): Promise<void> {
    await sql.deleteOldEntries(pool, INBOX_DAYS).finally(resendAfterOutage);
  }
  resendAfterOutage();
  const task = startTask(CONSUME, handleWaiting, { log, of: name });
  const sweeps = startTask(SWEEP_INBOX, sweep, { log, of: name });
  return {
    /** Whether events reach this process. */
    flows: () => flows,
    /** Finishes the events that are under way and returns all others to the stream. */
    stop: async () => {
      stopping.resolve(undefined);
      await Promise.all([task.stop(), sweeps.stop()]);
      reception?.end();
    },
  };
}

/** Events that arrive at a consumer. */
type Reception = {
  waiting: JsMsg[];
  /** False once no more arrive. */
  open: boolean;
  /** Returns what waits, and what is under way, to the stream. */
  end: (underWay?: JsMsg[]) => void;
};

/** Returns the durable consumer, which is made where it is missing: to go on after `handled`, or as a new one. */
async function ensureConsumer(
  { manager }: Connected,
  { name, from, firstSeconds, metadata }: ConsumerDefinition & Pick<HandledKinds, "metadata">,
  stream: StreamState,
  handled: number,
): Promise<ConsumerInfo> {
  const find = () => manager.consumers.info(STREAM, name);
  try {
    return await find();
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  // Of a stream that was made anew all is later than what was handled of the one before.
  const goesOn = handled > 0 && handled <= stream.last;
  const start = goesOn
    ? { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: handled + 1 }
    : firstSeconds === undefined
      ? { deliver_policy: DeliverPolicy.All }
      : {
          deliver_policy: DeliverPolicy.StartTime,
          opt_start_time: new Date(Date.now() - firstSeconds * 1_000).toISOString(),
        };
  const made = {
    durable_name: name,
    metadata,
    filter_subject: `berth.${from}.v1.>`,
    ack_policy: AckPolicy.Explicit,
    ...start,
    // Longer than any handler takes, and the wait for what a killed process had under way.
    ack_wait: 20e9,
    max_ack_pending: 100,
  };
  // Another process may have made it meanwhile, from another position.
  return manager.consumers.add(STREAM, made).catch(() => find());
}

type BatchOptions = ConsumerOptions & { kinds: HandledKinds };
type Begun = { message: JsMsg; effect: Effect };

/**
 * Prepares events that arrived together, then commits those that could be. Events that no handler takes cost no
 * transaction; those that only processes of another version take are left to these. Returns whether there were others;
 * throws when the database is unreachable.
 */
async function handleBatch(connected: Connected, options: BatchOptions, messages: JsMsg[]): Promise<boolean> {
  const outcomes = await Promise.allSettled(messages.map((message) => begin(options, message)));
  const begun: Begun[] = [];
  const untaken = messages.filter((message, index) => {
    const outcome = outcomes[index]!;
    return outcome.status === "fulfilled" && !outcome.value && isFor(options, message);
  });
  await options.kinds.refresh(connected.manager, untaken);
  for (const [index, outcome] of outcomes.entries()) {
    const message = messages[index]!;
    if (outcome.status === "fulfilled" && outcome.value) begun.push({ message, effect: outcome.value });
    else if (outcome.status === "fulfilled") await passOn(connected, options, message);
    else await returnFailed(connected, options, message, outcome.reason as Error);
  }
  if (begun.length > 0) await commit(connected, options, begun);
  return begun.length > 0;
}

/** Deals with an event that no handler here takes. */
async function passOn({ manager }: Connected, options: BatchOptions, message: JsMsg): Promise<void> {
  const { kinds, retryMs = RETRY_MS } = options;
  if (!isFor(options, message)) return message.ack();
  if (kinds.isOfOthers(message)) return message.nak(retryMs);
  message.ack();
  await kinds.forgetOthers(manager, message);
}

/** Whether this is an event, and of this consumer if it is sent again to one alone. */
function isFor({ name }: ConsumerOptions, { headers }: JsMsg): boolean {
  const only = headers?.get(ONLY_FOR);
  return Boolean(headers?.get(EVENT_ID)) && (!only || only === name);
}

async function begin(options: ConsumerOptions, message: JsMsg): Promise<Effect | undefined> {
  const { subject, data } = message;
  if (!isFor(options, message)) return undefined;
  return options.handlers.find(({ event }) => event === subject.split(".")[3])?.begin(data);
}

/**
 * Commits the effects of several events in one transaction, which pays for one commit. When it fails, each event is
 * committed alone.
 */
async function commit(connected: Connected, options: ConsumerOptions, begun: Begun[]): Promise<void> {
  try {
    await transaction(options.pool, (tx) => apply(tx, options, begun));
    for (const { message } of begun) message.ack();
  } catch (error) {
    if (isUnreachable(error)) throw error;
    if (begun.length === 1) return returnFailed(connected, options, begun[0]!.message, error as Error);
    for (const event of begun) await commit(connected, options, [event]);
  }
}

/** Applies the effects of those events that the inbox does not have yet, each once, in order. */
async function apply(tx: Tx, { name }: ConsumerOptions, begun: Begun[]): Promise<void> {
  const idOf = ({ message }: Begun) => message.headers!.get(EVENT_ID);
  const fresh = await sql.insertHandled(tx, name, begun.map(idOf));
  for (const event of begun) {
    const { message, effect } = event;
    const eventId = idOf(event);
    const carrier = { traceparent: message.headers!.get("traceparent") || undefined };
    const kind = message.subject.split(".")[3];
    if (fresh.delete(eventId)) await traced(`consume ${kind}`, SpanKind.CONSUMER, carrier, () => effect(tx));
    if (message.info.deliveryCount > 1) await sql.deleteFailures(tx, { consumer: name, eventId });
  }
}

/** Returns an event to the stream for another try, or makes it a dead letter when its handler failed too often. */
async function returnFailed(
  connected: Connected,
  options: ConsumerOptions,
  message: JsMsg,
  error: Error,
): Promise<void> {
  const { pool, log, name } = options;
  const key = { consumer: name, eventId: message.headers!.get(EVENT_ID) };
  const about = { err: error, ...key, subject: message.subject };
  if (isTransient(error)) {
    log.warn(about, "an event waits for something that is unreachable or busy");
    return message.nak(pauseAfter(options, message.info.deliveryCount));
  }
  const failures = await sql.countFailure(pool, key);
  log.error({ ...about, failures }, "an event could not be handled");
  if (failures < MAX_FAILURES) return message.nak(pauseAfter(options, failures));
  await publishDeadLetter(connected, name, message, error);
  deadLetters.inc({ consumer: name });
  message.term();
  // A dead letter that is sent again has as many tries as a new event.
  await sql.deleteFailures(pool, key);
}

function pauseAfter({ retryMs = RETRY_MS }: ConsumerOptions, failures: number): number {
  return Math.min(retryMs * 2 ** Math.min(Math.max(failures - 1, 0), 16), MAX_PAUSE_MS);
}
