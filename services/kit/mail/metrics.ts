import { Counter, Gauge } from "prom-client";
import type { Pool } from "../postgres/db.ts";
import { listQueues } from "./sql.ts";

/** Tries to send mails. */
export const mailTries = new Counter({
  name: "berth_mails_total",
  help: "Tries to send mails by queue and outcome: sent, retrying, failed (given up) or dropped (of no use any more)",
  labelNames: ["queue", "outcome"],
});

type Watched = { pool: Pool; queues: readonly string[] };
const watched = new Set<Watched>();

const waitingMails: Gauge<"queue"> = new Gauge({
  name: "berth_mails_waiting",
  help: "Queued mails, those that will be tried again included",
  labelNames: ["queue"],
  collect: () => collect(waitingMails, ({ waiting }) => waiting),
});

const overdueMails: Gauge<"queue"> = new Gauge({
  name: "berth_mails_overdue_seconds",
  help: "How long the mail waits that is due longest; grows when mails are not sent",
  labelNames: ["queue"],
  collect: () => collect(overdueMails, ({ overdueSeconds }) => overdueSeconds),
});

type QueueState = Awaited<ReturnType<typeof listQueues>>[number];

/** Sets a gauge for all queues. Without an answer of the database it has no values. */
async function collect(gauge: Gauge<"queue">, toValue: (state: QueueState) => number): Promise<void> {
  gauge.reset();
  for (const { pool, queues } of watched) {
    const states = await listQueues(pool).catch(() => undefined);
    if (!states) continue;
    for (const queue of queues) {
      const state = states.find((one) => one.queue === queue);
      gauge.set({ queue }, state ? toValue(state) : 0);
    }
  }
}

/** Reports on queues in the metrics until the returned function is called. */
export function watchQueues(pool: Pool, queues: readonly string[]): () => void {
  const entry = { pool, queues };
  watched.add(entry);
  for (const queue of queues)
    for (const outcome of ["sent", "retrying", "failed", "dropped"]) mailTries.inc({ queue, outcome }, 0);
  return () => void watched.delete(entry);
}
