import type { Tx } from "../../../kit/postgres/db.ts";
import { rateOf } from "../../pricing/compute.ts";
import { PRICE_VERSION } from "../../pricing/price-versions.ts";
import { correctStatements } from "../closing/correct.ts";
import { monthOf } from "../periods.ts";
import { addsInformation, segmentsOf, type UsageEvent } from "../segments.ts";
import { SILENT_SECONDS } from "../sums.ts";
import * as sql from "./sql.ts";

/** An event of an interval, with whose it is. */
export type ReportedUsage = UsageEvent & {
  accountId: string;
  projectId: string;
  serviceId: string;
  serviceType: string;
  intervalId: string;
};

/** How far the deployer's clock may be ahead. */
const MAX_AHEAD_MS = 5 * 60_000;

/**
 * Records an event, and derives the segments of its interval again. An event is recorded once, however often and in
 * whatever order it comes. One that changes a frozen period corrects it by an adjustment. `now` is in milliseconds.
 *
 * @throws when the event is from the future.
 */
export async function recordUsage(tx: Tx, event: ReportedUsage, now: number): Promise<void> {
  const { accountId, serviceId, intervalId } = event;
  if (event.at > now + MAX_AHEAD_MS)
    throw new Error(
      `A usage event of ${intervalId} is ${Math.round((event.at - now) / 1_000)} s in the future.`,
    );
  const at = Math.floor(event.at / 1_000);
  const frozenUntil = await sql.lockAccount(tx, accountId, monthOf(at).start);
  const number = await sql.upsertService(tx, { ...event, type: event.serviceType });
  const events = await sql.listEvents(tx, intervalId);
  if (events.some(({ seq }) => seq === event.seq)) return;
  if (event.kind !== "heartbeat" || addsInformation(event, events)) {
    await sql.insertEvent(tx, intervalId, serviceId, event);
    events.push(event);
  }
  const changedSince = await deriveInterval(tx, { ...event, number }, events, at);
  if (events.includes(event) || at - changedSince > SILENT_SECONDS) await sql.scheduleAlert(tx, accountId);
  if (changedSince < frozenUntil) await correctStatements(tx, accountId, changedSince, now);
}

type Owner = ReportedUsage & { number: number };

/**
 * Derives the segments of an interval, and of the one that it ends. Returns the time from which on segments may have
 * changed, in seconds.
 */
async function deriveInterval(tx: Tx, owner: Owner, events: UsageEvent[], at: number): Promise<number> {
  const { intervalId, number } = owner;
  const first = segmentsOf(events, { lastSeen: at })[0]?.start;
  const intervals = await sql.listIntervals(tx, number, intervalId, first ?? at);
  const own = intervals.find((one) => one.intervalId === intervalId);
  const lastSeen = Math.max(own?.lastSeen ?? 0, at);
  const rows: sql.SegmentRow[] = [];
  const derive = async (known: UsageEvent[], interval: Interval) => {
    const segments = segmentsOf(known, interval);
    await sql.deleteSegments(
      tx,
      interval.intervalId,
      segments.map(({ seq }) => seq),
    );
    for (const segment of segments)
      rows.push({ ...interval, ...segment, rate: rateOf(owner.serviceType, segment.size) });
  };
  if (first === undefined) await derive(events, { intervalId, lastSeen });
  else {
    const isLater = (one: sql.IntervalRow) =>
      one.start > first || (one.start === first && one.intervalId > intervalId);
    const others = intervals.filter((one) => one !== own);
    // The deployer has one interval of a service at a time: the stop of the one before is missing.
    for (const before of others.filter((one) => !isLater(one)))
      await derive(await sql.listEvents(tx, before.intervalId), { ...before, next: first });
    await derive(events, { intervalId, lastSeen, next: others.find(isLater)?.start });
  }
  await sql.upsertSegments(tx, { ...owner, priceVersion: PRICE_VERSION }, rows);
  const started = own?.start === first ? [] : [own?.start ?? at, first ?? at];
  return Math.min(at, own?.lastSeen ?? at, ...started);
}

type Interval = { intervalId: string; lastSeen: number; next?: number | undefined };
