import { afterAll, beforeAll, expect, test } from "vitest";
import { MemberRemovedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { testNats } from "../../../test/support/servers/nats.ts";
import { createLog } from "../log.ts";
import { createPool, type Pool, type Tx, transaction } from "../postgres/db.ts";
import { migrate } from "../postgres/migrate.ts";
import { replay } from "../replay.ts";
import { eventually, testDatabase } from "../testing/testing.ts";
import { connectBus, DEAD_STREAM } from "./bus.ts";
import { startConsumer } from "./consumer.ts";
import { on } from "./handler.ts";
import { emit, startRelay } from "./outbox.ts";

const log = createLog("kit-test", "silent");
let database: Awaited<ReturnType<typeof testDatabase>>;
let nats: Awaited<ReturnType<typeof testNats>>;
let pool: Pool;
let stops: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  [database, nats] = await Promise.all([testDatabase(["identity"]), testNats()]);
  pool = createPool(database.url("identity"));
  await migrate(pool);
  await pool.query("create table seen (consumer text, user_id text)");
});

afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
  stops = [];
  await pool.end();
  await Promise.all([database.drop(), nats.remove()]);
});

function bus(url = nats.url) {
  const made = connectBus(url, "kit-test", log);
  stops.push(() => made.close());
  return made;
}

function relay() {
  const made = startRelay({ url: database.url("identity"), bus: bus(), log });
  stops.push(() => made.stop());
  return made;
}

function consume(
  name: string,
  handle: Parameters<typeof on<typeof MemberRemovedSchema>>[1],
  more: { firstSeconds?: number } = {},
) {
  const options: Parameters<typeof startConsumer>[0] = {
    bus: bus(),
    pool,
    log,
    name,
    from: "identity",
    handlers: [on(MemberRemovedSchema, handle)],
    retryMs: 1,
    ...more,
  };
  const made = startConsumer(options);
  stops.push(() => made.stop());
  return made;
}

const remove = (userId: string) =>
  transaction(pool, (tx) => emit(tx, MemberRemovedSchema, "acc_1", { accountId: "acc_1", userId }));

const seen = async (consumer: string) => {
  const { rows } = await pool.query("select user_id from seen where consumer = $1", [consumer]);
  return rows.map((row: { user_id: string }) => row.user_id);
};

test("a committed event is handled once and in order, a rolled-back one never", async () => {
  consume("in-order", (tx, event) =>
    tx.query("insert into seen values ('in-order', $1)", [event.userId]).then(() => {}),
  );
  relay();
  relay();
  const failing = transaction(pool, async (tx) => {
    await emit(tx, MemberRemovedSchema, "acc_1", { accountId: "acc_1", userId: "never" });
    throw new Error("roll back");
  });
  await expect(failing).rejects.toThrow("roll back");
  const expected = Array.from({ length: 50 }, (_, i) => `usr_${i}`);
  for (const userId of expected) await remove(userId);
  await eventually("all events handled", async () => (await seen("in-order")).length >= 50);
  expect(await seen("in-order")).toEqual(expected);
  const left = await eventually("outbox emptied", async () => {
    const { rows } = await pool.query("select count(*)::int as n from outbox");
    return rows[0].n === 0;
  });
  expect(left).toBe(true);
});

test("a new consumer to which the past does not matter begins with what is new", async () => {
  relay();
  const note =
    (consumer: string) =>
    (tx: Tx, { userId }: { userId: string }) =>
      tx.query("insert into seen values ($1, $2)", [consumer, userId]).then(() => {});
  await remove("past");
  consume("all", note("all"));
  await eventually("the past is in the stream", async () => (await seen("all")).includes("past"));
  consume("new", note("new"), { firstSeconds: 0 });
  await eventually("what is new is handled", async () => {
    await remove("present");
    return (await seen("new")).length > 0;
  });
  expect(new Set(await seen("new"))).toEqual(new Set(["present"]));
});

test("an event that cannot be handled goes to the dead letters with its reason, and replay brings it back", async () => {
  let healed = false;
  let tries = 0;
  consume("stumbling", async (tx, event) => {
    if (event.userId !== "poison") return;
    tries++;
    if (!healed) throw new Error("cannot digest this");
    await tx.query("insert into seen values ('stumbling', $1)", [event.userId]);
  });
  await remove("poison");
  const { manager } = await bus().connected;
  const dead = await eventually("a dead letter", () =>
    manager.streams
      .getMessage(DEAD_STREAM, { last_by_subj: "berth-dead.stumbling.>" })
      .catch(() => undefined),
  );
  expect(dead?.header.get("Berth-Reason")).toBe("cannot digest this");
  // Ten deliveries; what arrives together with others is tried once more alone.
  expect([10, 11]).toContain(tries);
  healed = true;
  expect(await replay(nats.url, "stumbling")).toBe(1);
  await eventually("the event handled after all", async () => (await seen("stumbling")).length === 1);
  expect((await seen("in-order")).filter((id) => id === "poison")).toHaveLength(1);
});

test("while NATS is away writes go on, and their events arrive later, once", async () => {
  const own = await testNats();
  const away = createPool(database.url("identity"));
  await pool.query("truncate outbox, outbox_sent");
  const ownBus = connectBus(own.url, "late", log);
  await ownBus.connected;
  await own.stop();
  const consumer = startConsumer({
    bus: ownBus,
    pool: away,
    log,
    name: "late",
    from: "identity",
    handlers: [
      on(MemberRemovedSchema, (tx, e) =>
        tx.query("insert into seen values ('late', $1)", [e.userId]).then(() => {}),
      ),
    ],
    retryMs: 1,
  });
  for (const stop of stops.splice(0).reverse()) await stop();
  const lateRelay = startRelay({ url: database.url("identity"), bus: ownBus, log });
  for (const userId of ["late_1", "late_2"]) await remove(userId);
  expect(await seen("late")).toEqual([]);
  const again = await own.restart();
  await eventually("late events", async () => (await seen("late")).length >= 2);
  expect(await seen("late")).toEqual(["late_1", "late_2"]);
  await consumer.stop();
  await lateRelay.stop();
  await ownBus.close();
  await away.end();
  await again.remove();
});
