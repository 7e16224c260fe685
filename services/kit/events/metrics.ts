import { Counter } from "prom-client";
import { madeAt } from "../ids.ts";
import { type Db, one, type Pool } from "../postgres/db.ts";
import { createReadGauge } from "../telemetry.ts";
import { type Bus, DEAD_STREAM } from "./bus.ts";

/** Events that a consumer has given up. */
export const deadLetters = new Counter({
  name: "berth_dead_letters_total",
  help: "Events that a consumer gave up, by consumer",
  labelNames: ["consumer"],
});

const watchOldest = createReadGauge({
  name: "berth_outbox_oldest_seconds",
  help: "How long the oldest event waits that has not been sent; the same from all replicas of a service",
});

const watchDeadStream = createReadGauge({
  name: "berth_dead_letters_waiting",
  help: "Dead letters of all consumers that have not been sent again; the same from all processes",
});

/** Reports on the unsent events of this process's service, and on dead letters. */
export function watchEvents({ pool, bus }: { pool: Pool; bus: Bus }): void {
  watchOldest(() => oldestSeconds(pool));
  watchDeadStream(() => countDeadLetters(bus));
}

/** One row of the primary key's index. */
async function oldestSeconds(db: Db): Promise<number> {
  const oldest = await one<{ id: string }>(db, "outbox_oldest", "select id from outbox order by seq limit 1");
  return oldest ? Math.max(0, Date.now() - madeAt(oldest.id)) / 1_000 : 0;
}

async function countDeadLetters(bus: Bus): Promise<number> {
  const { manager } = await bus.connected;
  return (await manager.streams.info(DEAD_STREAM)).state.messages;
}
