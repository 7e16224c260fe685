import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { headers as natsHeaders } from "@nats-io/transport-node";
import { context, propagation } from "@opentelemetry/api";
import type pg from "pg";
import { newId } from "../ids.ts";
import type { Logger } from "../log.ts";
import { type Db, execute, many } from "../postgres/db.ts";
import { sessionOpener } from "../postgres/session.ts";
import type { Bus } from "./bus.ts";

/** Header with the id under which consumers remember that they have handled an event. */
export const EVENT_ID = "Berth-Event-Id";

/** Writes an event into the outbox of the caller's transaction; a relay publishes it after the commit. */
export async function emit<S extends DescMessage>(
  db: Db,
  schema: S,
  accountId: string,
  event: MessageInitShape<S>,
): Promise<void> {
  const service = schema.file.proto.package.split(".")[1];
  await emitAs(db, `berth.${service}.v1.${schema.name}.${accountId || "none"}`, schema, event);
}

/** As `emit`, under a subject of its own. */
export async function emitAs<S extends DescMessage>(
  db: Db,
  subject: string,
  schema: S,
  event: MessageInitShape<S>,
) {
  const carrier: Record<string, string> = {};
  propagation.inject(context.active(), carrier);
  await execute(
    db,
    "outbox_insert",
    "with added as (insert into outbox (id, subject, payload, headers) values ($1, $2, $3, $4)) select pg_notify('outbox:' || current_schema(), '')",
    [newId("evt"), subject, toBinary(schema, create(schema, event)), carrier],
  );
}

const LEADER_RETRY_MS = 1_000;
const BATCH = 500;

/**
 * Publishes what transactions left in the outbox, in order, then deletes it. One replica leads (an
 * advisory lock on a connection of its own, which also listens for new rows); the others wait. The
 * outbox id is the message id, so a row that was published but not yet deleted is not stored twice.
 */
export function startRelay(options: { url: string; bus: Bus; log: Logger }) {
  const { url, bus, log } = options;
  const stop = new AbortController();
  let wake = () => {};
  const open = sessionOpener(url, "outbox");
  let leader: pg.Client | undefined;

  const sleep = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
      if (stop.signal.aborted) wake();
    });

  async function lead(): Promise<void> {
    leader = await open();
    let lost = false;
    const gone = () => {
      lost = true;
      wake();
    };
    // A row may be committed after the outbox was read and before the sleep begins.
    let news = false;
    const notified = () => {
      news = true;
      wake();
    };
    leader.on("end", gone).on("notification", notified);
    // A deletion that a crash undoes is made again: the row is published under the same id.
    await leader.query("set synchronous_commit = off");
    const lock =
      "select pg_try_advisory_lock(hashtext('berth-outbox:' || current_schema())) as held, current_schema() as schema";
    let held = false;
    while (!lost && !stop.signal.aborted) {
      if (!held) {
        const { rows: found } = await leader.query<{ held: boolean; schema: string }>(lock);
        held = found[0]!.held;
        if (held) await leader.query(`listen "outbox:${found[0]!.schema}"`);
      }
      news = false;
      if (held && (await publishBatch(leader, bus)) > 0) continue;
      if (!news) await sleep(LEADER_RETRY_MS);
    }
  }

  async function run(): Promise<void> {
    await bus.connected;
    while (!stop.signal.aborted) {
      try {
        await lead();
      } catch (error) {
        log.warn({ err: error }, "events wait in the outbox");
        await sleep(LEADER_RETRY_MS);
      } finally {
        // Not waited for: a server that fell silent says no good-bye.
        leader?.end().catch(() => {});
      }
    }
  }
  void run();
  return {
    stop: async () => {
      stop.abort();
      wake();
      await leader?.end().catch(() => {});
    },
  };
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
  await Promise.all(
    batch.map((row) => {
      const headers = natsHeaders();
      headers.set(EVENT_ID, row.id);
      for (const [key, value] of Object.entries(row.headers)) headers.set(key, value);
      return js.publish(row.subject, row.payload, { msgID: row.id, headers });
    }),
  );
  const ids = batch.map((row) => row.id);
  await execute(db, "outbox_delete", "delete from outbox where id = any($1)", [ids]);
  return batch.length;
}
