import { Counter, Gauge } from "prom-client";
import type { Pool } from "../../../kit/postgres/db.ts";
import { readQueue } from "./sql.ts";

/** Attempts to deliver events to webhooks. */
export const attempts = new Counter({
  name: "berth_webhook_attempts_total",
  help: "Attempts to deliver events to webhooks by outcome: delivered, retrying or failed (given up)",
  labelNames: ["outcome"],
});

const watched = new Set<Pool>();

const waiting: Gauge = new Gauge({
  name: "berth_webhook_deliveries_waiting",
  help: "Deliveries to webhooks that wait, those that will be tried again included",
  collect: () => collect(waiting, ({ waiting }) => waiting),
});

const overdue: Gauge = new Gauge({
  name: "berth_webhook_deliveries_overdue_seconds",
  help: "How long the delivery to a webhook waits that is due longest",
  collect: () => collect(overdue, ({ overdueSeconds }) => overdueSeconds),
});

type Queue = Awaited<ReturnType<typeof readQueue>>;

/** Sets a gauge. Without an answer of the database it has no value. */
async function collect(gauge: Gauge, toValue: (queue: Queue) => number): Promise<void> {
  gauge.reset();
  for (const pool of watched) {
    const queue = await readQueue(pool).catch(() => undefined);
    if (queue) gauge.set(toValue(queue));
    else gauge.remove();
  }
}

/** Reports on the queue in the metrics until the returned function is called. */
export function watchQueue(pool: Pool): () => void {
  watched.add(pool);
  for (const outcome of ["delivered", "retrying", "failed"]) attempts.inc({ outcome }, 0);
  return () => void watched.delete(pool);
}
