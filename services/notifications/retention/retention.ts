import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { startTask } from "../../kit/tasks/task.ts";
import { SWEEP } from "../tasks.ts";
import * as sql from "./sql.ts";

const DAY = 24 * 3_600_000;
/** The maximum number of rows that one statement changes, so that none holds locks for long. */
const BATCH = 1_000;

/** How long and how many notifications are kept (docs/notifications.md#retention). */
export const KEPT_DAYS = 180;
export const KEPT_READ_DAYS = 90;
export const MAX_UNREAD = 1_000;
/** How long and how many deliveries of a webhook are kept (docs/webhooks.md#deliveries). */
const DELIVERY_DAYS = 7;
const MAX_DELIVERIES = 1_000;

/**
 * Deletes notifications that were read 90 days ago or are 180 days old, marks the oldest as read beyond a user's 1,000
 * unread, and deletes deliveries of webhooks that are 7 days old or beyond a webhook's newest 1,000. Several replicas may do this at once. The signal stops it between two batches.
 */
export async function sweep(pool: Pool, now: number, signal?: AbortSignal): Promise<void> {
  const [readBefore, before] = [new Date(now - KEPT_READ_DAYS * DAY), new Date(now - KEPT_DAYS * DAY)];
  const batches = async (statement: () => Promise<number>) => {
    while (!signal?.aborted && (await statement()) === BATCH);
  };
  await batches(() => sql.deleteRead(pool, readBefore, BATCH));
  await batches(() => sql.deleteOld(pool, before, BATCH));
  await batches(() => sql.deleteDigests(pool, before, BATCH));
  await batches(() => sql.deleteDeliveries(pool, new Date(now - DELIVERY_DAYS * DAY), BATCH));
  await batches(() => sql.deleteOldestDeliveries(pool, MAX_DELIVERIES, BATCH));
  await sql.deleteBursts(pool, new Date(now));
  await sql.deleteBundles(pool, new Date(now));
  for (const userId of signal?.aborted ? [] : await sql.listFullFeeds(pool, MAX_UNREAD))
    await batches(() =>
      sql.markOldestRead(pool, { userId, most: MAX_UNREAD, limit: BATCH, now: new Date(now) }),
    );
}

/** Sweeps at the start and then every 6 hours, until it is stopped. */
export function startRetention({ pool, log, now }: { pool: Pool; log: Logger; now: () => number }) {
  return startTask(SWEEP, (signal) => sweep(pool, now(), signal), { log });
}
