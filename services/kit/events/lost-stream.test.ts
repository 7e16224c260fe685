import { cp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { MemberRemovedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { type TestNats, testNats } from "../../../test/support/servers/nats.ts";
import { createLog } from "../log.ts";
import { createPool, type Pool, type Tx, transaction } from "../postgres/db.ts";
import { migrate } from "../postgres/migrate.ts";
import { eventually, testDatabase } from "../testing/testing.ts";
import { connectBus, STREAM } from "./bus.ts";
import { startConsumer } from "./consumer.ts";
import { on } from "./handler.ts";
import { watchEvents } from "./metrics.ts";
import { emit, startRelay } from "./outbox.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;
let nats: TestNats;
let pool: Pool;
const lines: string[] = [];
const log = createLog("kit-test", "info", (line) => void lines.push(line));
const stops: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  [database, nats] = await Promise.all([testDatabase(["identity"]), testNats()]);
  pool = createPool(database.url("identity"));
  await migrate(pool);
  await pool.query("create table seen (consumer text, user_id text)");
});
beforeEach(() => pool.query("truncate seen, outbox, outbox_sent, inbox"));
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});
afterAll(async () => {
  await pool?.end();
  await Promise.all([database?.drop(), nats?.remove()]);
});

function bus() {
  const made = connectBus(nats.url, "kit-test", log);
  stops.push(() => made.close());
  return made;
}

function relay() {
  const made = startRelay({ url: database.url("identity"), bus: bus(), log });
  stops.push(() => made.stop());
}

type Does = (tx: Tx, userId: string) => Promise<unknown>;

const record =
  (consumer: string): Does =>
  (tx, userId) =>
    tx.query("insert into seen values ($1, $2)", [consumer, userId]);

function consume(name: string, does: Does = record(name)) {
  const handler = on(MemberRemovedSchema, async (tx, { userId }) => void (await does(tx, userId)));
  const shared = { bus: bus(), pool, log };
  const made = startConsumer({ ...shared, name, from: "identity", handlers: [handler], retryMs: 1 });
  stops.push(() => made.stop());
  return { ...made, flows: watchEvents({ ...shared, consumers: [made] }) };
}

const remove = (userId: string) =>
  transaction(pool, (tx) => emit(tx, MemberRemovedSchema, "acc_1", { accountId: "acc_1", userId }));

const seen = async (consumer: string) => {
  const text = "select user_id from seen where consumer = $1 order by user_id";
  return (await pool.query(text, [consumer])).rows.map((row: { user_id: string }) => row.user_id);
};
const sees = (consumer: string, userIds: string[]) =>
  eventually(`${consumer} sees ${userIds}`, async () => {
    const found = await seen(consumer);
    expect(new Set(found).size).toBe(found.length);
    return found.join() === userIds.join();
  });
const outboxIsEmpty = () =>
  eventually("all is published", async () => (await pool.query("select from outbox")).rowCount === 0);

async function deleteStream(): Promise<void> {
  await (await bus().connected).manager.streams.delete(STREAM);
}

/** What becomes of the store, and of the server with it. */
const LOSSES: [string, () => Promise<void>][] = [
  ["its stream is deleted", deleteStream],
  [
    "the server is killed and comes back with an empty store",
    async () => {
      process.kill(nats.pid, "SIGKILL");
      await nats.stop();
      await rm(join(nats.dir, "data"), { recursive: true });
      nats = await nats.restart();
    },
  ],
  ...["meta.inf", "msgs/1.blk"].map((file): [string, () => Promise<void>] => [
    `the server comes back with a broken ${file}`,
    async () => {
      await nats.stop();
      await writeFile(join(nats.dir, "data/jetstream/$G/streams", STREAM, file), "broken");
      nats = await nats.restart();
    },
  ]),
];

test.each(LOSSES)(
  "%s: what was published and not handled yet, and what comes after, takes effect once",
  async (_what, lose) => {
    relay();
    consume("prompt");
    const late = consume("late");
    await remove("a");
    await Promise.all([sees("prompt", ["a"]), sees("late", ["a"])]);
    await late.stop();
    await remove("b");
    await sees("prompt", ["a", "b"]);
    await outboxIsEmpty();
    await lose();
    await remove("c");
    await sees("prompt", ["a", "b", "c"]);
    const again = consume("late");
    await sees("late", ["a", "b", "c"]);
    await eventually("events flow", again.flows);
  },
);

test("the server comes back without its newest events, whose sequences others take: each service sends its own again", async () => {
  const other = await testDatabase(["variables"]);
  const others = createPool(other.url("variables"));
  stops.push(
    () => other.drop(),
    () => others.end(),
  );
  await migrate(others);
  const removeByOther = (userId: string) =>
    transaction(others, (tx) => emit(tx, MemberRemovedSchema, "acc_1", { accountId: "acc_1", userId }));
  const otherRelay = () => {
    const made = startRelay({ url: other.url("variables"), bus: bus(), log });
    stops.push(() => made.stop());
    return made;
  };
  relay();
  consume("prompt");
  const late = consume("late");
  const first = otherRelay();
  await remove("a");
  await Promise.all([sees("prompt", ["a"]), sees("late", ["a"])]);
  await late.stop();
  const store = join(nats.dir, "data/jetstream/$G/streams", STREAM, "msgs");
  const copy = join(nats.dir, "copy");
  await nats.stop();
  await cp(store, copy, { recursive: true });
  nats = await nats.restart();
  for (const userId of ["b", "c", "d"]) await removeByOther(userId);
  await sees("prompt", ["a", "b", "c", "d"]);
  await first.stop();
  await nats.stop();
  await rm(store, { recursive: true });
  await cp(copy, store, { recursive: true });
  nats = await nats.restart();
  for (const userId of ["e", "f", "g", "h"]) await remove(userId);
  await outboxIsEmpty();
  otherRelay();
  const all = ["a", "b", "c", "d", "e", "f", "g", "h"];
  await sees("prompt", all);
  consume("late");
  await sees("late", all);
});

test("a consumer that is deleted goes on where it was: it skips nothing and asks for nothing again", async () => {
  const { manager } = await bus().connected;
  await manager.streams.purge(STREAM);
  const tried: string[] = [];
  let heals = false;
  const { flows } = consume("deleted", async (tx, userId) => {
    tried.push(userId);
    if (userId === "stuck" && !heals) throw Object.assign(new Error("wait"), { code: "40001" });
    await record("deleted")(tx, userId);
  });
  relay();
  for (let n = 10; n < 30; n++) await remove(`a${n}`);
  await eventually("they are handled", async () => (await seen("deleted")).length === 20);
  await remove("stuck");
  await eventually("it is tried", async () => tried.includes("stuck"));
  await eventually("events flow", flows);
  // It looks every 2 s where it is.
  await delay(2_500);
  await manager.consumers.delete(STREAM, "deleted");
  heals = true;
  await sees("deleted", [...Array.from({ length: 20 }, (_, n) => `a${10 + n}`), "stuck"]);
  const { config, delivered } = await manager.consumers.info(STREAM, "deleted");
  const { state } = await manager.streams.info(STREAM);
  expect([config.opt_start_seq, delivered.stream_seq]).toEqual([state.last_seq, state.last_seq]);
});

test("a consumer that starts while the stream is missing makes it", async () => {
  const there = bus();
  await there.connected;
  await deleteStream();
  const started = consume("first");
  await eventually("events flow", started.flows);
  relay();
  await remove("a");
  await sees("first", ["a"]);
});

test("while NATS is away events do not flow, and the log says so once", async () => {
  relay();
  const { flows } = consume("away");
  await eventually("events flow", flows);
  lines.length = 0;
  await nats.stop();
  await remove("a");
  await eventually("they do not flow", async () => !(await flows()));
  nats = await nats.restart();
  await sees("away", ["a"]);
  await eventually("events flow again", flows);
  expect(lines.filter((line) => line.includes("events wait in the outbox")).length).toBeLessThanOrEqual(1);
});
