import { type Db, execute, one } from "../../kit/postgres/db.ts";
import type { KindKey } from "../catalog/kinds.ts";

type MailedNotification = {
  userId: string;
  kind: KindKey;
  title: string;
  body: string;
  mailState: string;
  mailReason?: string;
};

export function findForMail(db: Db, id: string) {
  return one<MailedNotification>(
    db,
    "notification_find_for_mail",
    `select user_id as "userId", kind, title, body, mail_state as "mailState", mail_reason as "mailReason" from notifications where id = $1`,
    [id],
  );
}

/** Records what became of a try to mail a notification. */
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
