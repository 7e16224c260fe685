import { type Db, execute, one } from "../../kit/postgres/db.ts";
import type { KindKey } from "../kinds/kinds.ts";

type MailedNotification = {
  userId: string;
  accountId: string;
  kind: KindKey;
  title: string;
  body: string;
  metadata: Record<string, string>;
  mailState: string;
  mailReason?: string;
};

export function findForMail(db: Db, id: string) {
  return one<MailedNotification>(
    db,
    "notification_find_for_mail",
    `select user_id as "userId", account_id as "accountId", kind, title, body, metadata, mail_state as "mailState",
       mail_reason as "mailReason" from notifications where id = $1`,
    [id],
  );
}

/** Returns the user of a digest, and the accounts that its items are about. */
export function findDigestForMail(db: Db, id: string) {
  return one<{ userId: string; accountIds: string[] }>(
    db,
    "digest_find_for_mail",
    `select user_id as "userId", array(select distinct account_id from notifications n
       where n.digest_id = d.id and account_id <> '') as "accountIds" from digests d where id = $1`,
    [id],
  );
}

/** Drops the items of a digest that are about an account. */
export function dropOfAccount(db: Db, digestId: string, accountId: string): Promise<number> {
  return execute(
    db,
    "digest_drop_account",
    `update notifications set mail_state = 'dropped', mail_reason = 'no_access', mail_at = now()
     where digest_id = $1 and mail_state = 'digest' and account_id = $2`,
    [digestId, accountId],
  );
}

/** Records the outcome of an attempt to mail a notification. */
export function recordMail(
  db: Db,
  mail: { id: string; state: string; attempts: number; reason: string | undefined },
): Promise<number> {
  return execute(
    db,
    "notification_record_mail",
    "update notifications set mail_state = $2, mail_attempts = $3, mail_reason = $4, mail_at = now() where id = $1",
    [mail.id, mail.state, mail.attempts, mail.reason],
  );
}

/** Shows a hidden notification in the feed, as a new one, if it is of one of these kinds. */
export function showIfForced(db: Db, id: string, kinds: KindKey[]): Promise<number> {
  return execute(
    db,
    "notification_show",
    `update notifications set visible = true, created_at = clock_timestamp()
     where id = $1 and not visible and kind = any($2)`,
    [id, kinds],
  );
}

/** Like `showIfForced`, for all items of a digest. */
export function showForcedOf(db: Db, digestId: string, kinds: KindKey[]): Promise<number> {
  return execute(
    db,
    "notifications_show_of_digest",
    `update notifications set visible = true, created_at = clock_timestamp()
     where digest_id = $1 and not visible and kind = any($2)`,
    [digestId, kinds],
  );
}
