import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { KindKey } from "../catalog/kinds.ts";
import type { Choice } from "../catalog/preference.ts";

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

/** Lists a user's feed, newest first; with `unread`, what is not read. */
export function listNotifications(db: Db, userId: string, unread: boolean, { before, limit }: Page) {
  const [time, id] = before?.split(" ") ?? [];
  return many<NotificationRow & { position: string }>(
    db,
    unread ? "notifications_list_unread" : "notifications_list",
    `select ${NOTIFICATION}, ${POSITION} as position from notifications
     where user_id = $1 and visible ${unread ? "and read_at is null" : ""}
       and ($2::numeric is null or (created_at, id) < (to_timestamp(0) + $2::numeric * interval '1 second', $3))
     order by created_at desc, id desc limit $4`,
    [userId, time, id, limit],
  );
}

export async function countUnread(db: Db, userId: string): Promise<number> {
  const text =
    "select count(*)::int as count from notifications where user_id = $1 and visible and read_at is null";
  return (await one<{ count: number }>(db, "notifications_count_unread", text, [userId]))!.count;
}

/** Marks a notification of the user's feed as read. Returns it, with the time it was read first. */
export function markRead(db: Db, userId: string, id: string) {
  return one<NotificationRow>(
    db,
    "notification_mark_read",
    `update notifications set read_at = coalesce(read_at, now()) where id = $2 and user_id = $1 and visible
     returning ${NOTIFICATION}`,
    [userId, id],
  );
}

/** Marks what is in the user's feed by now as read. */
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

/** Returns why a user has a notification, and what became of its mail. */
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

export async function listChoices(db: Db, userId: string): Promise<Map<string, Choice>> {
  const text = "select kind, channel, frequency from preferences where user_id = $1";
  const rows = await many<Choice & { kind: string }>(db, "choices_list", text, [userId]);
  return new Map(rows.map(({ kind, ...choice }) => [kind, choice]));
}

export function setChoice(db: Db, userId: string, kind: KindKey, { channel, frequency }: Choice) {
  return execute(
    db,
    "choice_set",
    `insert into preferences (user_id, kind, channel, frequency) values ($1, $2, $3, $4)
     on conflict (user_id, kind) do update set channel = $3, frequency = $4`,
    [userId, kind, channel, frequency],
  );
}
