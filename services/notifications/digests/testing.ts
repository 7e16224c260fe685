import { transaction } from "../../kit/postgres/db.ts";
import { eventually } from "../../kit/testing/testing.ts";
import type { KindKey } from "../kinds/kinds.ts";
import { type Notice, notify } from "../notices/notify.ts";
import type { Recipient } from "../recipients/directory.ts";
import type { TestNotifications } from "../testing.ts";
import { type Digest, windowAt } from "./windows.ts";

/** Helpers for tests of mails and digests: notify users, set the clock, read what was sent. */
export function mailScene(service: TestNotifications) {
  const { pool, box, clock } = service;
  let count = 0;

  async function decisionOf({ userId }: Recipient, title: string) {
    const text = "select id from notifications where user_id = $1 and title = $2";
    const { rows } = await pool.query(text, [userId, title]);
    return service.as(userId).getNotificationDecisions({ notificationId: rows[0].id });
  }
  const mailOf = async (user: Recipient, title: string) => (await decisionOf(user, title)).mail!;

  return {
    /** Notifies users, as the handler of an event does. */
    send(kind: KindKey, recipients: Recipient[], more: Partial<Notice> = {}) {
      const dedupe = `n${++count}`;
      const notice = { kind, accountId: "", title: dedupe, body: `Body of ${dedupe}.`, metadata: {}, dedupe };
      return transaction(pool, (tx) =>
        notify(tx, { ...notice, ...more, recipients }, { mails: true, now: () => clock.ms }),
      );
    },
    set: (user: Recipient, kind: KindKey, channel: string, frequency: string) =>
      service.as(user.userId).setNotificationPref({ kind, channel, frequency }),
    mailsOf: ({ email }: Recipient) => box.for(email),
    subjectsOf: ({ email }: Recipient) => box.for(email).map(({ headers }) => headers.get("subject")),
    /** Returns why a user has a notification, which is found by its title. */
    decisionOf,
    /** Returns the outcome of its mail. */
    mailOf,
    settled: (user: Recipient, title: string, state: string) =>
      eventually(`the mail of ${title} is ${state}`, async () => {
        const mail = await mailOf(user, title);
        return mail.state === state ? mail : undefined;
      }),
    /** Sets the clock to when the next digest is due. */
    toNext(digest: Digest) {
      clock.ms = windowAt(digest, clock.ms).next;
    },
    /** Waits until all due digests are made and all mails sent. */
    quiet: () =>
      eventually("nothing is due", async () => {
        const due = "mail_state = 'digest' and digest_id is null and digest_at <= $1";
        const text = `select (select count(*) from notifications where ${due}) + (select count(*) from mails) as n`;
        return (await pool.query(text, [new Date(clock.ms)])).rows[0].n === 0;
      }),
  };
}
