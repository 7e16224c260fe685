import { setTimeout as delay } from "node:timers/promises";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { AckPolicy } from "@nats-io/jetstream";
import { headers as natsHeaders } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type MemberRemoved, MemberRemovedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { testNats } from "../../../test/support/servers/nats.ts";
import { newId } from "../ids.ts";
import { createLog } from "../log.ts";
import { createPool, type Pool, type Tx } from "../postgres/db.ts";
import { migrate } from "../postgres/migrate.ts";
import { CONSUME } from "../tasks/shared-tasks.ts";
import { openProxy, type TcpProxy } from "../testing/proxy.ts";
import { eventually, testDatabase } from "../testing/testing.ts";
import { type Bus, type Connected, connectBus, DEAD_STREAM, STREAM } from "./bus.ts";
import { caughtUp } from "./caught-up.ts";
import { startConsumer } from "./consumer.ts";
import { on } from "./handler.ts";
import { EVENT_ID } from "./outbox.ts";

const log = createLog("kit-test", "silent");
const SUBJECT = "berth.identity.v1.MemberRemoved.acc_1";
let database: Awaited<ReturnType<typeof testDatabase>>;
let nats: Awaited<ReturnType<typeof testNats>>;
let proxy: TcpProxy;
let pool: Pool;
let throughProxy: Pool;
let bus: Bus;
let connected: Connected;
const running: { stop: () => Promise<void> }[] = [];

beforeAll(async () => {
  [database, nats] = await Promise.all([testDatabase(["identity"]), testNats()]);
  proxy = await openProxy(new URL(database.url("identity")));
  pool = createPool(database.url("identity"));
  throughProxy = createPool(proxy.of(database.url("identity")));
  await migrate(pool);
  await pool.query("create table seen (consumer text, user_id text)");
  bus = connectBus(nats.url, "kit-test", log);
  connected = await bus.connected;
});

afterAll(async () => {
  await Promise.all(running.map((one) => one.stop()));
  await bus?.close();
  await Promise.all([pool?.end(), throughProxy?.end()]);
  proxy?.shut();
  await Promise.all([database?.drop(), nats?.remove()]);
});

type Does = (tx: Tx, event: MemberRemoved) => Promise<unknown>;

function consume(
  name: string,
  does: { prepare?: (event: MemberRemoved) => Promise<unknown>; handle?: Does },
) {
  const record: Does = (tx, { userId }) => tx.query("insert into seen values ($1, $2)", [name, userId]);
  const { prepare = async () => {}, handle = record } = does;
  const handler = on(MemberRemovedSchema, {
    prepare,
    handle: async (tx, event) => void (await handle(tx, event)),
  });
  const options = { bus, pool: throughProxy, log, name, from: "identity", handlers: [handler], retryMs: 1 };
  const made = startConsumer(options);
  running.push(made);
  return { ...made, record };
}

async function publish(userId: string, subject = SUBJECT, more: Record<string, string> = {}) {
  const headers = natsHeaders();
  for (const [key, value] of Object.entries({ [EVENT_ID]: newId("evt"), ...more })) headers.set(key, value);
  const event = create(MemberRemovedSchema, { accountId: "acc_1", userId });
  await connected.js.publish(subject, toBinary(MemberRemovedSchema, event), { headers });
}

const seen = async (consumer: string, prefix: string) => {
  const text = "select user_id from seen where consumer = $1 and starts_with(user_id, $2) order by user_id";
  const { rows } = await pool.query<{ user_id: string }>(text, [consumer, prefix]);
  return rows.map((row) => row.user_id);
};

async function dead(name: string): Promise<number> {
  const filter = { subjects_filter: `berth-dead.${name}.>` };
  const { state } = await connected.manager.streams.info(DEAD_STREAM, filter);
  return Object.values(state.subjects ?? {}).reduce((sum, count) => sum + count, 0);
}

/** More than ten tries take with the pauses of this file: 1 ms to 512 ms. */
const OUTAGE_MS = 3_000;

test("the database is away while 25 events wait: none becomes a dead letter, and each is handled after, once", async () => {
  consume("away", {});
  const expected = Array.from({ length: 25 }, (_, i) => `away_${10 + i}`);
  await publish("away_00");
  await eventually("events flow", async () => (await seen("away", "away_")).length === 1);
  proxy.shut();
  for (const userId of expected) await publish(userId);
  await delay(OUTAGE_MS);
  expect(await dead("away")).toBe(0);
  await proxy.open();
  await eventually("all events", async () => (await seen("away", "away_")).length > 25);
  expect(await seen("away", "away_")).toEqual(["away_00", ...expected]);
});

test("whoever waits for a consumer does not wait for an event that has to be tried again", async () => {
  let isAway = true;
  consume("waited", {
    async prepare({ userId }) {
      if (isAway && userId === "waited_1") throw new ConnectError("away", Code.Unavailable);
    },
  });
  await publish("waited_1");
  await eventually("it is tried again", async () => {
    // The consumer itself may still be made.
    const info = await connected.manager.consumers.info(STREAM, "waited").catch(() => undefined);
    return info?.num_redelivered === 1;
  });
  await publish("waited_2");
  expect(await caughtUp(bus, "waited")).toBe(true);
  expect(await seen("waited", "waited_")).toEqual(["waited_2"]);
  isAway = false;
  await eventually("both are handled", async () => (await seen("waited", "waited_")).length === 2);
});

test("an event that a consumer does not take needs no database", async () => {
  consume("indifferent", {});
  await publish("indifferent_0");
  await eventually("events flow", async () => (await seen("indifferent", "indifferent_")).length === 1);
  proxy.shut();
  await publish("indifferent_1", "berth.identity.v1.AuditRecorded.acc_1");
  await eventually("it is acknowledged", async () => {
    const info = await connected.manager.consumers.info(STREAM, "indifferent");
    return info.num_pending === 0 && info.num_ack_pending === 0;
  });
  await proxy.open();
});

test("another service is away: what needs it waits for as long as that, and others pass", async () => {
  let asked = 0;
  let back = false;
  consume("peer", {
    async prepare({ userId }) {
      if (userId !== "peer_waits" || back) return;
      asked++;
      throw new ConnectError("connect ECONNREFUSED 127.0.0.1:1", Code.Unavailable);
    },
  });
  await publish("peer_waits");
  await publish("peer_passes");
  await eventually("asked often", async () => asked > 11 || (await dead("peer")) > 0);
  expect(await seen("peer", "peer_")).toEqual(["peer_passes"]);
  expect(await dead("peer")).toBe(0);
  back = true;
  await eventually("both", async () => (await seen("peer", "peer_")).length === 2);
});

test("a process that went away with an event counts as no try", async () => {
  await connected.manager.consumers.add(STREAM, {
    durable_name: "gone",
    filter_subject: "berth.identity.v1.>",
    ack_policy: AckPolicy.Explicit,
    opt_start_seq: (await connected.manager.streams.info(STREAM)).state.last_seq + 1,
    deliver_policy: "by_start_sequence" as never,
  });
  await publish("gone_1");
  const before = await connected.js.consumers.get(STREAM, "gone");
  for (let delivery = 0; delivery < 12; delivery++) (await before.next())!.nak();
  let stumbled = 0;
  const { record } = consume("gone", {
    handle: (tx, event) => {
      if (stumbled++ < 3) throw new Error("stumbled");
      return record(tx, event);
    },
  });
  await eventually(
    "handled, or given up",
    async () => (await seen("gone", "gone_")).length + (await dead("gone")) > 0,
  );
  expect([await seen("gone", "gone_"), await dead("gone")]).toEqual([["gone_1"], 0]);
  expect((await pool.query("select from inbox_tries where consumer = 'gone'")).rowCount).toBe(0);
});

test.each([
  ["a deadlock", deadlock],
  ["a failed serialization", failSerialization],
])(
  "an event whose transaction the database ends for %s, more than ten times, is handled in the end",
  async (_, end) => {
    const name = `ended-by-${end.name}`;
    let ended = 0;
    const { record } = consume(name, {
      handle: async (tx, event) => {
        if (event.userId === name && ended++ < 12) await end(tx);
        await record(tx, event);
      },
    });
    await publish(name);
    await eventually(
      "handled, or given up",
      async () => (await seen(name, name)).length + (await dead(name)) > 0,
    );
    expect([await seen(name, name), await dead(name)]).toEqual([[name], 0]);
  },
);

/** Waits for a session that waits for this one; the database ends this one. */
async function deadlock(tx: Tx): Promise<void> {
  const other = await pool.connect();
  try {
    await other.query("begin");
    await other.query("select pg_advisory_xact_lock(2)");
    await tx.query("set local deadlock_timeout = '50ms'");
    await tx.query("select pg_advisory_xact_lock(1)");
    const waiting = other.query("select pg_advisory_xact_lock(1)").catch(() => {});
    await tx.query("select pg_advisory_xact_lock(2)").finally(() => tx.query("rollback"));
    await waiting;
  } finally {
    await other.query("rollback");
    other.release();
  }
}

async function failSerialization(tx: Tx): Promise<void> {
  await tx.query("do $$ begin raise sqlstate '40001' using message = 'could not serialize access'; end $$");
}

test("failures are counted past a restart", async () => {
  let failed = 0;
  const failing = {
    handle: async (_tx: Tx, { userId }: MemberRemoved) => {
      if (userId !== "poison_1") return;
      failed++;
      throw new Error("cannot digest this");
    },
  };
  const first = consume("restarted", failing);
  await publish("poison_1");
  await eventually("some failures", async () => failed >= 4);
  await first.stop();
  consume("restarted", failing);
  // What was on its way to the first one is given out again after 20 s.
  await vi.waitFor(async () => expect(await dead("restarted")).toBe(1), { timeout: 50_000, interval: 50 });
  // Together with others an event is tried once more.
  expect(failed).toBeLessThanOrEqual(10 + 2);
});

test("a failure that cannot even be counted is tried again after a pause, and handled once it can", async () => {
  const triedAt: number[] = [];
  let digestible = false;
  const { record } = consume("uncounted", {
    handle: async (tx, event) => {
      if (event.userId === "uncounted_1" && !digestible) {
        triedAt.push(performance.now());
        throw new Error("cannot digest this");
      }
      await record(tx, event);
    },
  });
  // What came before is handled by then: of several events that arrive together each is tried twice.
  await publish("uncounted_0");
  await eventually("events flow", async () => (await seen("uncounted", "uncounted_")).length === 1);
  await pool.query("alter table inbox_tries rename to inbox_tries_away");
  await publish("uncounted_1");
  await eventually("tried four times", async () => triedAt.length >= 4);
  await pool.query("alter table inbox_tries_away rename to inbox_tries");
  digestible = true;
  await eventually("it is handled", async () => (await seen("uncounted", "uncounted_")).length === 2);
  const pauses = triedAt.slice(1).map((at, index) => at - triedAt[index]!);
  expect(Math.min(...pauses)).toBeGreaterThan(CONSUME.retryMs! - 10);
});

test("dead letters that tell of an outage are sent again by themselves, to their consumer alone; others stay", async () => {
  const letter = (userId: string, reason: string) =>
    publish(userId, `berth-dead.heir.${SUBJECT}`, { "Berth-Reason": reason, "Berth-Consumer": "heir" });
  const outages = [
    "connect ECONNREFUSED 127.0.0.1:5432",
    "",
    "Connection terminated unexpectedly",
    "the database system is starting up",
    "timeout exceeded when trying to connect",
    "terminating connection due to administrator command",
    "[unavailable] The service is not available right now. Try again.",
    "canceling statement due to lock timeout",
    "deadlock detected",
    "could not serialize access due to concurrent update",
    "Client has encountered a connection error and is not queryable",
  ];
  for (const [index, reason] of outages.entries()) await letter(`letter_${10 + index}`, reason);
  await letter("letter_poison", "cannot digest this");
  consume("heir", {});
  consume("sibling", {});
  await eventually("all that may pass", async () => (await seen("heir", "letter_")).length >= outages.length);
  expect(await seen("heir", "letter_")).toEqual(outages.map((_, index) => `letter_${10 + index}`));
  await publish("letter_z");
  await eventually("later events", async () => (await seen("sibling", "letter_")).length > 0);
  expect(await seen("sibling", "letter_")).toEqual(["letter_z"]);
  await eventually("one is left", async () => (await dead("heir")) === 1);
});

test("a dead letter is of the class that it was written with, whatever its reason reads like", async () => {
  const misleading = async (_tx: Tx, { userId }: MemberRemoved) => {
    if (userId === "classed_1") throw new Error("deadlock detected");
  };
  const first = consume("classed", { handle: misleading });
  await publish("classed_1");
  await eventually("it is given up", async () => (await dead("classed")) === 1);
  await first.stop();
  // Letters are sent again in their order: once this one of a former version, without a class, has arrived, the one
  // before it was passed over.
  const former = { "Berth-Reason": "deadlock detected", "Berth-Consumer": "classed" };
  await publish("classed_2", `berth-dead.classed.${SUBJECT}`, former);
  consume("classed", {});
  // What was on its way to the first one is given out again after 20 s.
  await vi.waitFor(async () => expect(await seen("classed", "classed_")).toContain("classed_2"), {
    timeout: 50_000,
    interval: 50,
  });
  expect(await seen("classed", "classed_")).toEqual(["classed_2"]);
  await eventually("one is left", async () => (await dead("classed")) === 1);
});
