import { create, toBinary } from "@bufbuild/protobuf";
import { headers as natsHeaders } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MemberAddedSchema, MemberRemovedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { testNats } from "../../../test/support/servers/nats.ts";
import { newId } from "../ids.ts";
import { createLog } from "../log.ts";
import { createPool, type Pool, type Tx } from "../postgres/db.ts";
import { migrate } from "../postgres/migrate.ts";
import { eventually, testDatabase } from "../testing/testing.ts";
import { type Bus, connectBus, STREAM } from "./bus.ts";
import { startConsumer } from "./consumer.ts";
import { on } from "./handler.ts";
import { EVENT_ID } from "./outbox.ts";

const log = createLog("kit-test", "silent");
let database: Awaited<ReturnType<typeof testDatabase>>;
let nats: Awaited<ReturnType<typeof testNats>>;
let pool: Pool;
const buses: Bus[] = [];
const running: { stop: () => Promise<void> }[] = [];

beforeAll(async () => {
  [database, nats] = await Promise.all([testDatabase(["identity"]), testNats()]);
  pool = createPool(database.url("identity"));
  await migrate(pool);
  await pool.query("create table seen (consumer text, user_id text)");
});

afterAll(async () => {
  await Promise.all(running.map((one) => one.stop()));
  await Promise.all(buses.map((one) => one.close()));
  await pool?.end();
  await Promise.all([database?.drop(), nats?.remove()]);
});

function connect() {
  const bus = connectBus(nats.url, "kit-test", log);
  buses.push(bus);
  return bus;
}

/** Starts a process's consumer: of a version that handles removals, or of a newer one that handles additions too. */
async function start(name: string, version: "older" | "newer") {
  const record = (tx: Tx, { userId }: { userId: string }) =>
    tx.query("insert into seen values ($1, $2)", [name, userId]).then(() => {});
  const added = version === "newer" ? [on(MemberAddedSchema, record)] : [];
  const handlers = [on(MemberRemovedSchema, record), ...added];
  const made = startConsumer({ bus: connect(), pool, log, name, from: "identity", handlers, retryMs: 1 });
  running.push(made);
  await eventually(`the ${version} one receives events`, async () => made.flows());
  return made;
}

async function publish(schema: typeof MemberAddedSchema | typeof MemberRemovedSchema, userId: string) {
  const { js } = await buses[0]!.connected;
  const headers = natsHeaders();
  headers.set(EVENT_ID, newId("evt"));
  const payload = toBinary(schema, create(schema, { accountId: "acc_1", userId }));
  await js.publish(`berth.identity.v1.${schema.name}.acc_1`, payload, { headers });
}

const seen = async (consumer: string, prefix: string) => {
  const text = "select user_id from seen where consumer = $1 and starts_with(user_id, $2) order by user_id";
  const { rows } = await pool.query(text, [consumer, prefix]);
  return rows.map(({ user_id: userId }) => userId);
};

/** Returns how many events a consumer has not dealt with. */
async function waiting(consumer: string): Promise<number> {
  const { manager } = await buses[0]!.connected;
  const info = await manager.consumers.info(STREAM, consumer);
  return info.num_pending + info.num_ack_pending;
}

test("beside a newer process, an older one leaves it the events that only that one handles", async () => {
  const older = [await start("rollout", "older"), await start("rollout", "older")];
  await start("rollout", "newer");
  const users = Array.from({ length: 60 }, (_, n) => `rollout-${String(n).padStart(2, "0")}`);
  for (const user of users) await publish(MemberAddedSchema, user);
  await publish(MemberRemovedSchema, "rollout-removed");
  await eventually("all are handled", async () => (await waiting("rollout")) === 0);
  expect(await seen("rollout", "rollout")).toEqual([...users, "rollout-removed"]);
  await Promise.all(older.map((one) => one.stop()));
});

test("after a rollback, an older process drops what nobody handles any longer, and goes on", async () => {
  const newer = await start("rollback", "newer");
  await publish(MemberAddedSchema, "rollback-1");
  await eventually("it is handled", async () => (await seen("rollback", "rollback")).length === 1);
  await newer.stop();
  await start("rollback", "older");
  for (let n = 0; n < 110; n++) await publish(MemberAddedSchema, `rollback-dropped-${n}`);
  await publish(MemberRemovedSchema, "rollback-2");
  await eventually("nothing waits", async () => (await waiting("rollback")) === 0);
  expect(await seen("rollback", "rollback")).toEqual(["rollback-1", "rollback-2"]);
  const { manager } = await buses[0]!.connected;
  const { config } = await manager.consumers.info(STREAM, "rollback");
  expect(config.metadata).toMatchObject({ "berth-handles": "MemberRemoved" });
});
