import { setTimeout as delay } from "node:timers/promises";
import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { headers as natsHeaders } from "@nats-io/transport-node";
import { context, propagation } from "@opentelemetry/api";
import type pg from "pg";
import { retry } from "../concurrency/retry.ts";
import { newId } from "../ids.ts";
import type { Logger } from "../log.ts";
import { type Db, execute, many, one } from "../postgres/db.ts";
import { keepSession } from "../postgres/session.ts";
import type { Loop } from "../tasks/loop.ts";
import { RELAY } from "../tasks/shared-tasks.ts";
import { type Next, startTask } from "../tasks/task.ts";
import { type Bus, CHECK_MS, STREAM, type StreamState } from "./bus.ts";

/** Header with the id by which consumers recognise an event that they have handled. */
export const EVENT_ID = "Berth-Event-Id";
/** Tells the relay of new rows. */
const NOTIFY = "pg_notify('outbox:' || current_schema(), '')";

/** An event as the outbox stores it. */
export type OutboxEvent = { subject: string; payload: Uint8Array };

/** Returns an event of a service to write to its outbox. */
export function eventOf<S extends DescMessage>(
  schema: S,
  accountId: string,
  event: MessageInitShape<S>,
): OutboxEvent {
  const service = schema.file.proto.package.split(".")[1]!;
  return { subject: subjectOf(service, schema, accountId), payload: encode(schema, event) };
}

/** Returns the subject under which a service publishes an event of an account. */
export function subjectOf(service: string, schema: DescMessage, accountId: string): string {
  return `berth.${service}.v1.${schema.name}.${accountId || "none"}`;
}

/** Returns the payload of an event. */
export function encode<S extends DescMessage>(schema: S, event: MessageInitShape<S>): Uint8Array {
  return toBinary(schema, create(schema, event));
}

/** Writes an event to the outbox in the caller's transaction. A relay publishes it after the commit. */
export async function emit<S extends DescMessage>(
  db: Db,
  schema: S,
  accountId: string,
  event: MessageInitShape<S>,
): Promise<void> {
  await emitAll(db, [eventOf(schema, accountId, event)]);
}

/** How many events one statement writes. */
const MOST_AT_ONCE = 1_000;

/** As `emit`, of events that are published in this order, in as few statements as there can be. Returns their ids. */
export async function emitAll(db: Db, events: OutboxEvent[]): Promise<string[]> {
  const ids: string[] = [];
  for (let at = 0; at < events.length; at += MOST_AT_ONCE)
    ids.push(...(await insert(db, events.slice(at, at + MOST_AT_ONCE))));
  return ids;
}

async function insert(db: Db, events: OutboxEvent[]): Promise<string[]> {
  const ids = events.map(() => newId("evt"));
  await execute(
    db,
    "outbox_insert",
    `with added as (
       insert into outbox (id, subject, payload, headers)
       select id, subject, payload, $4 from unnest($1::text[], $2::text[], $3::bytea[]) as e (id, subject, payload))
     select ${NOTIFY}`,
    [ids, events.map(({ subject }) => subject), events.map(({ payload }) => payload), traceHeaders()],
  );
  return ids;
}

const PUBLISH_MS = 1_000;

/** Waits until a committed event is in the stream, for a second at most: NATS may be away. */
export async function published(db: Db, id: string): Promise<void> {
  const text = "select from outbox where id = $1";
  const until = Date.now() + PUBLISH_MS;
  for (let pause = 1; (await one(db, "outbox_waits", text, [id])) && Date.now() < until; pause *= 2)
    await delay(Math.min(pause, 50));
}

function traceHeaders(): Record<string, string> {
  const carrier: Record<string, string> = {};
  propagation.inject(context.active(), carrier);
  return carrier;
}

const BATCH = 500;
const SWEEP_MS = 60_000;
/** How long, and how many, published events are kept for a stream that is lost: a minute more than these at most. */
const KEEP_SECONDS = 3_600;
const KEEP_EVENTS = 100_000;

/**
 * Publishes the rows of the outbox in order, then moves them to those that were sent, of which the stream may lose some.
 * One replica leads, by an advisory lock on a session of its own that also listens for new rows; the others wait. The
 * outbox id is the message id, so a row that was published but not moved yet is not stored twice.
 */
export function startRelay(options: { url: string; bus: Bus; log: Logger }) {
  const { url, bus, log } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const stopped = Promise.withResolvers<undefined>();
  let kept: Awaited<ReturnType<typeof keepSession>> | undefined;
  let relay: Loop | undefined;
  let lead: { session: pg.Client; next: () => Promise<Next> } | undefined;
  /** Why there is no session. */
  let failure: unknown;
  const failed = (error: unknown) => {
    failure = error;
  };

  async function prepare(session: pg.Client): Promise<void> {
    // A deletion that a crash undoes is repeated: the row is published again under the same id.
    await session.query("set synchronous_commit = off");
    session.on("notification", () => relay?.wake());
    const own = { session, next: createPublisher(session, bus, log) };
    session.once("end", () => {
      if (lead === own) lead = undefined;
    });
    lead = own;
    failure = undefined;
  }

  /** Publishes while the session lives. While another replica leads, it asks for the lock. */
  async function publishNext(): Promise<Next> {
    if (!lead) throw failure ?? new Error("the session with the database was lost");
    const { session, next } = lead;
    try {
      // One that hangs for NATS delays no stop: what it has published is published again under the same id.
      return await Promise.race([next(), stopped.promise]);
    } catch (error) {
      // Another replica may reach NATS; this one goes on in another session.
      lead = undefined;
      session.end().catch(() => {});
      throw error;
    }
  }

  async function run(): Promise<void> {
    await bus.connected;
    const keep = () => keepSession({ url, name: "outbox", prepare, failed });
    kept = await retry(keep, { everyMs: RELAY.everyMs, failed, signal });
    if (signal.aborted) return kept.stop();
    relay = startTask(RELAY, publishNext, { log });
  }
  run().catch(() => {});
  return {
    stop: async () => {
      stopping.abort();
      stopped.resolve(undefined);
      await Promise.all([relay?.stop(), kept?.stop()]);
    },
  };
}

/** Returns a function that publishes what waits, once this session leads. */
function createPublisher(session: pg.Client, bus: Bus, log: Logger): () => Promise<Next> {
  const followStream = createStreamFollower(session, bus, log);
  let leads = false;
  return async () => {
    leads ||= await tryToLead(session);
    if (!leads) return undefined;
    await followStream();
    return (await publishBatch(session, bus)) > 0 ? "more" : undefined;
  };
}

async function tryToLead(session: pg.Client): Promise<boolean> {
  const lock =
    "select pg_try_advisory_lock(hashtext('berth-outbox:' || current_schema())) as held, current_schema() as schema";
  const { held, schema } = (await session.query<{ held: boolean; schema: string }>(lock)).rows[0]!;
  if (held) await session.query(`listen "outbox:${schema}"`);
  return held;
}

type OutboxRow = { id: string; subject: string; payload: Buffer; headers: Record<string, string> };

async function publishBatch(db: Db, bus: Bus): Promise<number> {
  const batch = await many<OutboxRow>(
    db,
    "outbox_next",
    "select id, subject, payload, headers from outbox order by seq limit $1",
    [BATCH],
  );
  if (batch.length === 0) return 0;
  const { js } = await bus.connected;
  const acks = await Promise.all(
    batch.map((row) => {
      const headers = natsHeaders();
      headers.set(EVENT_ID, row.id);
      for (const [key, value] of Object.entries(row.headers)) headers.set(key, value);
      return js.publish(row.subject, row.payload, { msgID: row.id, headers });
    }),
  );
  await moveToSent(
    db,
    batch.map(({ id }) => id),
    acks.map(({ seq }) => seq),
  );
  return batch.length;
}

function moveToSent(db: Db, ids: string[], streamSeqs: number[]): Promise<number> {
  return execute(
    db,
    "outbox_move_to_sent",
    `with published as (select * from unnest($1::text[], $2::bigint[]) as p (id, stream_seq)),
       sent as (delete from outbox o using published p where o.id = p.id
                returning o.seq, o.id, o.subject, o.payload, o.headers, p.stream_seq)
     insert into outbox_sent (seq, id, subject, payload, headers, stream_seq) select * from sent on conflict do nothing`,
    [ids, streamSeqs],
  );
}

/**
 * Returns a function, to be called often, that every 2 s looks what the stream has: of the events that were sent of late,
 * those that it has lost go back to the outbox. Consumers recognise what they have handled.
 */
function createStreamFollower(db: Db, bus: Bus, log: Logger) {
  let known: StreamState | undefined;
  let [lookAt, sweepAt] = [0, Date.now() + SWEEP_MS];
  return async (): Promise<void> => {
    if (Date.now() < lookAt) return;
    const found = await bus.check();
    lookAt = Date.now() + CHECK_MS;
    // Sequences that begin again: a cluster of NATS has made the stream anew by itself.
    const again = known !== undefined && found.last < known.last;
    const others = known !== undefined && found.first > known.last + 1;
    // Events that become too old are no loss: what else may be gone is seen at each connection.
    if (again || others || found.connection !== known?.connection) {
      const last = again ? 0 : await lastKept(db, bus, found);
      const count = await takeBack(db, { first: found.first, last });
      if (count > 0) log.warn({ count }, "NATS has lost events that were sent recently; they are sent again");
    }
    known = found;
    if (Date.now() < sweepAt) return;
    sweepAt = Date.now() + SWEEP_MS;
    await deleteOldSent(db);
  };
}

/**
 * Returns the sequence up to which the stream has what was sent. A server that lost its newest events may have given their
 * sequences to others since, so the events themselves are compared, from the newest sent one back to one that is there.
 */
async function lastKept(db: Db, bus: Bus, { first, last }: StreamState): Promise<number> {
  const { manager } = await bus.connected;
  let kept = last;
  for (;;) {
    const sent = await one<{ id: string; stream_seq: number }>(
      db,
      "outbox_sent_newest",
      `select id, stream_seq::float8 as stream_seq from outbox_sent
       where stream_seq between $1 and $2 order by seq desc limit 1`,
      [first, kept],
    );
    if (!sent) return kept;
    const stored = await manager.streams.getMessage(STREAM, { seq: sent.stream_seq });
    if (stored?.header.get(EVENT_ID) === sent.id) return kept;
    kept = sent.stream_seq - 1;
  }
}

/** Returns events that were sent, but of which the stream has none of these sequences, to the outbox. */
function takeBack(db: Db, { first, last }: Pick<StreamState, "first" | "last">): Promise<number> {
  return execute(
    db,
    "outbox_take_back",
    `with lost as (delete from outbox_sent where stream_seq not between $1 and $2 returning *)
     insert into outbox (id, subject, payload, headers)
     select id, subject, payload, headers from lost order by seq on conflict (id) do nothing`,
    [first, last],
  );
}

function deleteOldSent(db: Db): Promise<number> {
  return execute(
    db,
    "outbox_sent_sweep",
    `delete from outbox_sent where at < now() - make_interval(secs => $1)
       or seq <= (select max(seq) from outbox_sent) - $2::bigint`,
    [KEEP_SECONDS, KEEP_EVENTS],
  );
}
