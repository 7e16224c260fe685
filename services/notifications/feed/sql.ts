import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { KindKey } from "../kinds/kinds.ts";
import type { Choice } from "../preferences/preference.ts";

export type NotificationRow = {
  id: string;
  userId: string;
  accountId: string;
  kind: KindKey;
  title: string;
  body: string;
  metadata: Record<string, string>;
  createdAt: Timestamp;
  readAt?: Timestamp;
};

const NOTIFICATION = `id, user_id as "userId", account_id as "accountId", kind, title, body, metadata,
  created_at as "createdAt", read_at as "readAt"`;

/** The sort key of a row, exact to the microsecond. */
const POSITION = `extract(epoch from created_at)::text || ' ' || id`;

type Page = { before: string | undefined; limit: number };

/** Lists a user's feed, newest first; with `unread`, only what is unread. */
export function listNotifications(db: Db, userId: string, unread: boolean, { before, limit }: Page) {
  const [time, id] = before?.split(" ") ?? [];
  return many<NotificationRow & { position: string }>(
    db,
    unread ? "notifications_list_unread" : "notifications_list",
    `select ${NOTIFICATION}, ${POSITION} as position from notifications
     where user_id = $1 and visible ${unread ? "and read_at is null" : ""}
       and (created_at, id) <
         (coalesce(to_timestamp(0) + $2::numeric * interval '1 second', 'infinity'), coalesce($3, ''))
     order by created_at desc, id desc limit $4`,
    [userId, time, id, limit],
  );
}

export async function countUnread(db: Db, userId: string): Promise<number> {
  const text =
    "select count(*)::int as count from notifications where user_id = $1 and visible and read_at is null";
  return (await one<{ count: number }>(db, "notifications_count_unread", text, [userId]))!.count;
}

/** Marks a notification of the user's feed as read. Returns it, with the time it was first read. */
export function markRead(db: Db, userId: string, id: string) {
  return one<NotificationRow>(
    db,
    "notification_mark_read",
    `update notifications set read_at = coalesce(read_at, now()) where id = $2 and user_id = $1 and visible
     returning ${NOTIFICATION}`,
    [userId, id],
  );
}

/** Marks everything in the user's feed as read. */
export function markAllRead(db: Db, userId: string): Promise<number> {
  return execute(
    db,
    "notifications_mark_all_read",
    `update notifications set read_at = now()
     where user_id = $1 and visible and read_at is null and created_at <= now()`,
    [userId],
  );
}

export type DecisionRow = Choice & {
  kind: KindKey;
  overridden: boolean;
  visible: boolean;
  mailState: string;
  mailAttempts: number;
  mailReason?: string;
  mailAt?: Timestamp;
};

/** Returns why a user has a notification, and the outcome of its mail. */
export function findDecisions(db: Db, userId: string, id: string) {
  return one<DecisionRow>(
    db,
    "notification_find_decisions",
    `select n.kind, n.channel, n.frequency, n.overridden, n.visible,
       coalesce(d.mail_state, n.mail_state) as "mailState", coalesce(d.mail_attempts, n.mail_attempts) as "mailAttempts",
       coalesce(d.mail_reason, n.mail_reason) as "mailReason", coalesce(d.mail_at, n.mail_at) as "mailAt"
     from notifications n left join digests d on d.id = n.digest_id and n.mail_state = 'digest'
     where n.id = $2 and n.user_id = $1`,
    [userId, id],
  );
}

/** A position in the feeds by time, in microseconds since 1970. */
export type Mark = number;

export type Arrival = { id: string; kind: string; at: Mark };

const MICROSECONDS = (time: string) => `(extract(epoch from ${time}) * 1000000)::bigint`;

/**
 * Returns the time before which nothing new can appear in a feed: every transaction of this role that began before it
 * has ended, and its writes are visible to the statements that follow.
 */
export async function findMark(db: Db): Promise<Mark> {
  const row = await one<{ mark: Mark }>(
    db,
    "feed_mark",
    `select ${MICROSECONDS("least(statement_timestamp(), min(xact_start))")} as mark from pg_stat_activity
     where datname = current_database() and usename = current_user and pid <> pg_backend_pid()`,
  );
  return row!.mark;
}

/** Lists a user's feed after a position, oldest first; `id` orders notifications of one time. */
export function listArrivals(db: Db, userId: string, after: Pick<Arrival, "at" | "id">, limit: number) {
  return many<Arrival>(
    db,
    "feed_arrivals",
    `select id, kind, ${MICROSECONDS("created_at")} as at from notifications
     where user_id = $1 and visible
       and (created_at, id) > (to_timestamp(0) + $2::bigint * interval '1 microsecond', $3)
     order by created_at, id limit $4`,
    [userId, after.at, after.id, limit],
  );
}
