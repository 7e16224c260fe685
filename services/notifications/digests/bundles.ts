import { queueMails } from "../../kit/mail/mail.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import type { KindKey } from "../catalog/kinds.ts";
import * as sql from "./sql.ts";

/**
 * Returns the mails of bundled kinds that may go at once: those to users who got none of them within the hour. The
 * others wait for one mail that goes an hour after the last. Exact, because a user's row is locked until the transaction
 * ends, and a bundle takes no more once its mail was composed (docs/notifications.md#digests).
 */
export async function holdBundles<M extends { id: string; userId: string; email: string }>(
  tx: Tx,
  kind: KindKey,
  mails: M[],
  now: number,
): Promise<M[]> {
  if (mails.length === 0) return [];
  const users = mails.map(({ userId }) => userId);
  const places = await sql.takeBundlePlaces(tx, kind, users, new Date(now));
  const held = mails.filter(({ userId }) => places.get(userId)!.held);
  if (held.length === 0) return mails;
  const due = held.map(({ userId }) => places.get(userId)!.dueAt);
  const opened = await sql.fillBundles(
    tx,
    kind,
    held.map(({ id, userId }, index) => ({ id, userId, dueAt: due[index]! })),
  );
  const bundles = held.flatMap(({ userId, email }, index) => {
    const digestId = opened.get(userId);
    if (digestId === undefined) return [];
    const data = { digestId, bundle: kind, dueAt: due[index]!.toISOString() };
    return [{ kind: "digest", address: email, data, queue: "critical", waitMs: due[index]!.getTime() - now }];
  });
  await queueMails(tx, bundles);
  return mails.filter(({ userId }) => !places.get(userId)!.held);
}
