import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ClientRegisteredSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { connectBus } from "../../../services/kit/events/bus.ts";
import { startConsumer } from "../../../services/kit/events/consumer.ts";
import { on } from "../../../services/kit/events/handler.ts";
import { emit, startRelay } from "../../../services/kit/events/outbox.ts";
import { createLog } from "../../../services/kit/log.ts";
import { createPool, transaction } from "../../../services/kit/postgres/db.ts";
import { migrate } from "../../../services/kit/postgres/migrate.ts";
import { type Bench, median } from "../row.ts";
import { scratchDatabase } from "../scratch.ts";

const PER_SECOND = 500;
const WARM_UP_SECONDS = 2;
const SECONDS = 10;

/**
 * From the commit of an event to its committed effect in a consumer, at a steady 500 events per second. The event is one
 * that no service handles: all of them receive it, and none does work of its own with the two cores.
 */
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
    let taken: number[] = [];
    let handled: (() => void) | undefined;
    const { nc } = await bus.connected;
    const relay = startRelay({ url: database.url, bus, log });
    const handler = on(ClientRegisteredSchema, async (_tx, { clientId }) => {
      // An event handled before the emitter saw its own commit took no time.
      taken.push(Math.max(0, performance.now() - (committed.get(clientId) ?? performance.now())));
      handled?.();
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
    /** Emits at the steady rate, and returns once all is handled. */
    async function emitFor(seconds: number): Promise<void> {
      const count = seconds * PER_SECOND;
      const all = Promise.withResolvers<void>();
      taken = [];
      handled = () => taken.length === count && all.resolve();
      const started = performance.now();
      for (let i = 0; i < count; i++) {
        const wait = started + (i * 1000) / PER_SECOND - performance.now();
        if (wait > 1) await new Promise((resolve) => setTimeout(resolve, wait));
        const clientId = `bench_${seconds}_${i}`;
        void transaction(pool, (tx) => emit(tx, ClientRegisteredSchema, "", { clientId })).then(() =>
          committed.set(clientId, performance.now()),
        );
      }
      await all.promise;
    }
    // Connections are opened and code is compiled before: what queues up meanwhile is no event of a steady rate.
    await emitFor(WARM_UP_SECONDS);
    await emitFor(SECONDS);
    await consumer.stop();
    await relay.stop();
    await bus.close();
    await pool.end();
    await database.drop();
    const steady = taken.toSorted((a, b) => a - b);
    const p99 = steady[Math.floor(steady.length * 0.99)]!;
    const detail = `median ${median(steady).toFixed(1)} ms, most ${steady.at(-1)!.toFixed(1)} ms`;
    return [{ name: "event-commit-to-effect-p99", value: p99, unit: "ms", goal: "<= 50", detail }];
  },
};
