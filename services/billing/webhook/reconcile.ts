import type Stripe from "stripe";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { startTask } from "../../kit/tasks/task.ts";
import { markDisputed } from "../disputes/sql.ts";
import * as due from "../due/sql.ts";
import { deletePlanChanges } from "../plan-change/sql.ts";
import { readDisputedPayments } from "../stripe/disputes.ts";
import { EVENT_TYPES } from "../stripe/event-types.ts";
import { isOthers } from "../stripe/installation.ts";
import type { Provider } from "../stripe/provider.ts";
import { LIVE } from "../subscription/statuses.ts";
import { RECONCILE, toCause } from "../tasks.ts";
import { toStripeEvent } from "./intake.ts";
import { missedEvents } from "./metrics.ts";
import * as sql from "./sql.ts";

const SECOND = 1_000;
const DAY = 86_400 * SECOND;
const EVENTS_EVERY_MS = 900 * SECOND;
/** The time of day at which customers who may have changed are compared: three o'clock, UTC. */
const NIGHTLY_MS = 3 * 3_600 * SECOND;
const RETRY_MS = 60 * SECOND;
/** How far before its last end a pass begins: clocks differ, and events are listed a little after they happen. */
const OVERLAP_MS = 600 * SECOND;
/** How long the provider lists events, and so how long they are kept here. */
const KEPT_DAYS = 30;
/** Payers may dispute for about four months, and banks take as long to decide. */
const DISPUTES_DAYS = 120;
/** An event of which no webhook arrived within this was missed. */
const MISSED_MS = 300 * SECOND;
/** Over how long the readings of many customers are spread. */
const SPREAD_MINUTES = 60;
const PAGE = 100;
const BATCH = 1_000;

type Deps = { pool: Pool; provider: Provider; log: Logger; now: () => number; stored: () => void };

/**
 * Finds what webhooks missed (docs/billing.md#reconciling), until it is stopped. One replica does each pass. `now`
 * is the provider's time, in milliseconds; `stored` is called when customers are due.
 */
export function startReconciler(deps: Deps) {
  return startTask(RECONCILE, (signal) => reconcile(deps, signal), { log: deps.log, toLog: toCause });
}

/** Does the passes that are due. Several replicas may do this at once. */
export async function reconcile(deps: Deps, signal: AbortSignal): Promise<void> {
  const now = deps.now();
  await pass(deps, "events", now + EVENTS_EVERY_MS, (doneUntil) =>
    addMissedEvents(deps, now, doneUntil, signal),
  );
  if (signal.aborted) return;
  await pass(deps, "customers", nextNight(now), async () => {
    // First, as it may fail: what follows would have all customers read again with each try.
    await markNewDisputes(deps, now);
    await markDisputed(deps.pool);
    await due.markCustomers(deps.pool, { all: false, live: LIVE, minutes: SPREAD_MINUTES });
    while (!signal.aborted && (await due.deleteEvents(deps.pool, KEPT_DAYS, BATCH)) === BATCH);
    while (!signal.aborted && (await deletePlanChanges(deps.pool, KEPT_DAYS, BATCH)) === BATCH);
  });
}

type Work = (doneUntil: number | undefined) => Promise<void>;

/** Does a pass if it is due; after a failure again in a minute. `doneUntil` is in milliseconds. */
async function pass({ pool, now }: Deps, name: sql.Reconciliation, next: number, work: Work): Promise<void> {
  const at = now();
  const doneUntil = await sql.takeReconciliation(pool, name, new Date(at), new Date(next));
  if (doneUntil === undefined) return;
  try {
    await work(doneUntil === null ? undefined : doneUntil * SECOND);
    await sql.setReconciled(pool, name, new Date(at));
  } catch (error) {
    await sql.retryReconciliation(pool, name, new Date(at + RETRY_MS));
    throw error;
  }
}

/**
 * Marks the payments that were disputed of late: the webhooks of some may be lost, or have come to a version of Berth that
 * recorded no disputes.
 */
async function markNewDisputes({ pool, provider }: Deps, now: number): Promise<void> {
  const since = Math.floor((now - DISPUTES_DAYS * DAY) / SECOND);
  const payments = await provider.ask((stripe) => readDisputedPayments(stripe, since));
  await due.markPayments(pool, payments ?? []);
}

/** Stores the events since the last pass that are not known. Before events that are too old to be listed, all is due. */
async function addMissedEvents(
  deps: Deps,
  now: number,
  doneUntil: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { pool, log, stored } = deps;
  const listed = now - KEPT_DAYS * DAY;
  if (doneUntil !== undefined && doneUntil < listed)
    await due.markCustomers(pool, { all: true, live: LIVE, minutes: SPREAD_MINUTES });
  const since = Math.max(listed, (doneUntil ?? 0) - OVERLAP_MS);
  let missed = 0;
  for await (const events of listPages(deps.provider, Math.floor(since / SECOND))) {
    const added = new Set(await due.addEvents(pool, events.map(toStripeEvent)));
    missed += events.filter(({ id, created }) => added.has(id) && created * SECOND < now - MISSED_MS).length;
    if (signal.aborted) throw new Error("The process stops; the pass is done again.");
  }
  stored();
  if (missed === 0) return;
  missedEvents.inc(missed);
  log.warn({ missed }, "webhooks of the payment provider did not arrive");
}

/** Returns the provider's events since a time (s), in pages. */
async function* listPages(provider: Provider, since: number): AsyncGenerator<Stripe.Event[]> {
  for (const group of EVENT_TYPES) {
    const params: Stripe.EventListParams = { created: { gte: since }, types: [...group], limit: PAGE };
    for (let more = true; more; ) {
      const page = await provider.ask((stripe) => stripe.events.list(params));
      yield page.data.filter((event) => !isOthers(provider.installation, event));
      const last = page.data.at(-1);
      more = page.has_more && last !== undefined;
      if (last) params.starting_after = last.id;
    }
  }
}

function nextNight(now: number): number {
  const today = Math.floor(now / DAY) * DAY + NIGHTLY_MS;
  return today > now ? today : today + DAY;
}
