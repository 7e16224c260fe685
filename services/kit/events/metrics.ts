import { setTimeout as delay } from "node:timers/promises";
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

const watchStopped = createReadGauge({
  name: "berth_events_stopped",
  help: "Whether events do not flow between this process and the others",
});

/** How long an event may wait to be sent before events count as stopped. */
const WAIT_SECONDS = 30;
/** Readers of metrics and of readiness wait for little more. */
const ANSWER_MS = 1_500;

type Flow = { bus: Bus; pool?: Pool; consumers?: { flows: () => boolean }[] };

/**
 * Reports on events: those of this process's service that were not sent, dead letters, and whether events flow. Returns
 * what tells the latter: NATS has its streams, this process's consumers get their events, and none waits to be sent.
 */
export function watchEvents({ pool, bus, consumers = [] }: Flow): () => Promise<boolean> {
  const asked = async () => {
    await bus.check();
    if (!consumers.every((consumer) => consumer.flows())) return false;
    return pool === undefined || (await oldestSeconds(pool)) < WAIT_SECONDS;
  };
  const flows = () => Promise.race([asked(), delay(ANSWER_MS, false, { ref: false })]).catch(() => false);
  if (pool) watchOldest(() => oldestSeconds(pool));
  watchDeadStream(() => countDeadLetters(bus));
  watchStopped(async () => ((await flows()) ? 0 : 1));
  return flows;
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
