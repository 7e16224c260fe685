import { queueMails } from "../../kit/mail/mail.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import type { KindKey } from "../kinds/kinds.ts";
import * as sql from "./sql.ts";

/**
 * Returns the mails of bundled kinds that may be sent immediately: those to users who received none within the hour. The
 * others are bundled into one mail, sent an hour after the last. Exact, because a user's row is locked until the
 * transaction ends, and a bundle is closed before its mail is composed (docs/notifications.md#digests).
 */
export async function holdBundles<M extends { id: string; userId: string; email: string }>(
  tx: Tx,
  kind: KindKey,
  mails: M[],
  now: number,
): Promise<M[]> {
  if (mails.length === 0) return [];
  const users = mails.map(({ userId }) => userId);
  const bundles = await sql.reserveBundles(tx, kind, users, new Date(now));
  const held = mails.filter(({ userId }) => bundles.get(userId)!.held);
  if (held.length === 0) return mails;
  const due = held.map(({ userId }) => bundles.get(userId)!.dueAt);
  const opened = await sql.fillBundles(
    tx,
    kind,
    held.map(({ id, userId }, index) => ({ id, userId, dueAt: due[index]! })),
  );
  const mailsOfBundles = held.flatMap(({ userId, email }, index) => {
    const digestId = opened.get(userId);
    if (digestId === undefined) return [];
    const data = { digestId, bundle: kind, dueAt: due[index]!.toISOString() };
    return [{ kind: "digest", address: email, data, queue: "critical", waitMs: due[index]!.getTime() - now }];
  });
  await queueMails(tx, mailsOfBundles);
  return mails.filter(({ userId }) => !bundles.get(userId)!.held);
}
