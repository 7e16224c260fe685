import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { MemberRemovedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { connectBus } from "../../../services/kit/events/bus.ts";
import { startConsumer } from "../../../services/kit/events/consumer.ts";
import { on } from "../../../services/kit/events/handler.ts";
import { emit, startRelay } from "../../../services/kit/events/outbox.ts";
import { createLog } from "../../../services/kit/log.ts";
import { createPool, transaction } from "../../../services/kit/postgres/db.ts";
import { migrate } from "../../../services/kit/postgres/migrate.ts";
import type { Bench } from "../row.ts";
import { scratchDatabase } from "../scratch.ts";

const PER_SECOND = 500;
const SECONDS = 10;
/** Events of the first second only open connections and warm up. */
const COUNT = PER_SECOND * (1 + SECONDS);

/** From the commit of an event to its committed effect in a consumer, at a steady 500 events per second. */
export const events: Bench = {
  names: ["event-commit-to-effect-p99"],
  run: async (platform) => {
    const database = await scratchDatabase(platform);
    const log = createLog("bench", "error");
    const pool = createPool(database.url, { max: 20 });
    await migrate(pool);
    const config = await readFile(join(platform.dir, "nats", "nats.conf"), "utf8");
    const [, port] = /^\s*(?:listen|port):?\s*"?(?:[\d.]+:)?(\d+)/m.exec(config) ?? [];
    const password = (await readFile(join(platform.dir, "nats", "password"), "utf8")).trim();
    const bus = connectBus(`nats://berth:${password}@127.0.0.1:${port}`, "bench", log);
    const committed = new Map<string, number>();
    const taken: number[] = [];
    const { nc } = await bus.connected;
    const relay = startRelay({ url: database.url, bus, log });
    let left = COUNT;
    const all = Promise.withResolvers<void>();
    const handler = on(MemberRemovedSchema, async (_tx, { userId }) => {
      // An event handled before the emitter saw its own commit took no time.
      taken.push(Math.max(0, performance.now() - (committed.get(userId) ?? performance.now())));
      if (--left === 0) all.resolve();
    });
    const consumer = startConsumer({
      bus,
      pool,
      log,
      name: `bench-${Date.now()}`,
      from: "identity",
      handlers: [handler],
    });
    await nc.flush();
    const started = performance.now();
    for (let i = 0; i < COUNT; i++) {
      const wait = started + (i * 1000) / PER_SECOND - performance.now();
      if (wait > 1) await new Promise((resolve) => setTimeout(resolve, wait));
      const userId = `usr_bench_${i}`;
      void transaction(pool, (tx) =>
        emit(tx, MemberRemovedSchema, "bench", { accountId: "bench", userId }),
      ).then(() => committed.set(userId, performance.now()));
    }
    await all.promise;
    await consumer.stop();
    await relay.stop();
    await bus.close();
    await pool.end();
    await database.drop();
    const steady = taken.slice(PER_SECOND).sort((a, b) => a - b);
    const p99 = steady[Math.floor(steady.length * 0.99)]!;
    return [{ name: "event-commit-to-effect-p99", value: p99, unit: "ms", goal: "<= 50" }];
  },
};
