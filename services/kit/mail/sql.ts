import { type Db, execute, many } from "../postgres/db.ts";
import type { Mail } from "./mail.ts";

/** A mail that this process may try to send until its lease is over. */
export type TakenMail = Mail & { tries: number };

/**
 * Takes at most `limit` mails that are due. As an array they are selected once: a join, such as `in (select …)` may be, can
 * select again for each row, and what it has taken by then it skips, so that in the end it takes all.
 */
export function takeMails(
  db: Db,
  queue: string,
  { limit, leaseSeconds }: { limit: number; leaseSeconds: number },
): Promise<TakenMail[]> {
  return many<TakenMail>(
    db,
    "mails_take",
    `update mails set tries = tries + 1, due_at = now() + make_interval(secs => $2)
     where id = any(array(select id from mails where queue = $3 and due_at <= now() order by due_at limit $1
                  for update skip locked))
     returning id, kind, address, data, tries, extract(epoch from now() - created_at)::float8 as "ageSeconds"`,
    [limit, leaseSeconds, queue],
  );
}

export function retryMail(db: Db, { id, tries }: TakenMail, seconds: number): Promise<number> {
  const text = "update mails set due_at = now() + make_interval(secs => $3) where id = $1 and tries = $2";
  return execute(db, "mail_retry", text, [id, tries, seconds]);
}

export function deleteMail(db: Db, { id }: TakenMail): Promise<number> {
  return execute(db, "mail_forget", "delete from mails where id = $1", [id]);
}

/** Returns how many mails are queued, and how long the one waits that is due longest. */
export function listQueues(db: Db): Promise<{ queue: string; waiting: number; overdueSeconds: number }[]> {
  return many(
    db,
    "mails_list_queues",
    `select queue, count(*)::int as waiting,
       coalesce(greatest(extract(epoch from now() - min(due_at)), 0), 0)::float8 as "overdueSeconds"
     from mails group by queue`,
    [],
  );
}
