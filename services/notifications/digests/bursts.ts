import type { Tx } from "../../kit/postgres/db.ts";
import * as sql from "./sql.ts";
import { windowAt } from "./windows.ts";

/** The maximum number of mails to a user within an hour, not counting forced ones (docs/notifications.md#digests). */
export const MAX_MAILS_AN_HOUR = 20;

/**
 * Returns which mails of unforced notifications may be sent immediately; `mails` has at most one for each user. The
 * others are deferred to the next daily digest. Exact, because a user's row is locked until the transaction ends.
 */
export async function deferBursts<M extends { id: string; userId: string }>(
  tx: Tx,
  mails: M[],
  now: number,
): Promise<M[]> {
  if (mails.length === 0) return [];
  const users = mails.map(({ userId }) => userId);
  const full = new Set(await sql.countMails(tx, users, new Date(now), MAX_MAILS_AN_HOUR));
  const held = mails.filter(({ userId }) => full.has(userId)).map(({ id }) => id);
  if (held.length > 0) await sql.deferMails(tx, held, new Date(windowAt("daily", now).next));
  return mails.filter(({ userId }) => !full.has(userId));
}
