import { type Db, execute, many } from "../../kit/postgres/db.ts";

/** Deletes notifications that were read before a time. */
export function deleteRead(db: Db, before: Date, limit: number): Promise<number> {
  return execute(
    db,
    "notifications_delete_read",
    `delete from notifications where id = any(array(
       select id from notifications where read_at < $1 limit $2 for update skip locked))`,
    [before, limit],
  );
}

/** Deletes notifications from before a time, read or not, in the feed or not. */
export function deleteOld(db: Db, before: Date, limit: number): Promise<number> {
  return execute(
    db,
    "notifications_delete_old",
    `delete from notifications where id = any(array(
       select id from notifications where created_at < $1 limit $2 for update skip locked))`,
    [before, limit],
  );
}

export function deleteDigests(db: Db, before: Date, limit: number): Promise<number> {
  return execute(
    db,
    "digests_delete_old",
    `delete from digests where id = any(array(
       select id from digests where created_at < $1 limit $2 for update skip locked))`,
    [before, limit],
  );
}

/** Deletes the counts of users who were sent no mail in the hour before a time. */
export function deleteBursts(db: Db, now: Date): Promise<number> {
  return execute(
    db,
    "mail_bursts_delete",
    `delete from mail_bursts where user_id in (select user_id from mail_bursts
       where sent_at[cardinality(sent_at)] < $1::timestamptz - interval '1 hour' for update skip locked)`,
    [now],
  );
}

/** Like `deleteBursts`, for bundles. */
export function deleteBundles(db: Db, now: Date): Promise<number> {
  return execute(
    db,
    "mail_bundles_delete",
    `delete from mail_bundles where (user_id, kind) in (select user_id, kind from mail_bundles
       where due_at < $1::timestamptz - interval '1 hour' for update skip locked)`,
    [now],
  );
}

/** Lists users who have more than this many unread. */
export async function listFullFeeds(db: Db, most: number): Promise<string[]> {
  const rows = await many<{ userId: string }>(
    db,
    "notifications_full_feeds",
    `select user_id as "userId" from notifications where visible and read_at is null
     group by user_id having count(*) > $1`,
    [most],
  );
  return rows.map(({ userId }) => userId);
}

/** Deletes deliveries of webhooks that are over and were created before a time. */
export function deleteDeliveries(db: Db, before: Date, limit: number): Promise<number> {
  return execute(
    db,
    "webhook_deliveries_delete_old",
    `delete from webhook_deliveries where id = any(array(
       select id from webhook_deliveries where created_at < $1 and state <> 'pending' limit $2
        for update skip locked))`,
    [before, limit],
  );
}

/** Deletes the oldest deliveries that are over of webhooks that have more than `most`. */
export function deleteOldestDeliveries(db: Db, most: number, limit: number): Promise<number> {
  return execute(
    db,
    "webhook_deliveries_delete_oldest",
    `delete from webhook_deliveries where id in (
       select d.id from (select webhook_id from webhook_deliveries group by 1 having count(*) > $1) w
         cross join lateral (select id, state from webhook_deliveries
           where webhook_id = w.webhook_id order by id desc offset $1) d
       where d.state <> 'pending' limit $2)`,
    [most, limit],
  );
}

type Full = { userId: string; most: number; limit: number; now: Date };

/** Marks the oldest unread of a user's feed as read, except the newest `most`; at most `limit` of them. */
export function markOldestRead(db: Db, { userId, most, limit, now }: Full): Promise<number> {
  return execute(
    db,
    "notifications_read_oldest",
    `update notifications set read_at = $4 where id = any(array(
       select id from notifications where user_id = $1 and visible and read_at is null
         and (created_at, id) <= (select created_at, id from notifications
           where user_id = $1 and visible and read_at is null
           order by created_at desc, id desc offset $2 limit 1)
       limit $3 for update skip locked))`,
    [userId, most, limit, now],
  );
}

/** Tables with rows of a user. Mails that are still queued find no notification and are not sent. */
const TABLES_OF_USER = ["notifications", "preferences", "digests", "mail_bursts"];

/** Deletes what is stored about a user. */
export async function deleteOfUser(db: Db, userId: string): Promise<void> {
  for (const table of TABLES_OF_USER)
    await execute(db, `user_delete_${table}`, `delete from ${table} where user_id = $1`, [userId]);
}

/** Deletes the webhooks of an account with their deliveries, and notifications about it from before a time. */
export async function deleteOfAccount(db: Db, accountId: string, before: Date): Promise<void> {
  await execute(db, "account_delete_webhooks", "delete from webhooks where account_id = $1", [accountId]);
  const text = "delete from notifications where account_id = $1 and created_at < $2";
  await execute(db, "account_delete_notifications", text, [accountId, before]);
}
