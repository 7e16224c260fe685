import { afterAll, beforeAll, expect, test } from "vitest";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { eventually } from "../../kit/testing/testing.ts";
import type { KindKey } from "../catalog/kinds.ts";
import { type Notice, notify } from "../notices/notify.ts";
import type { Recipient } from "../notices/recipients.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";
import { windowAt } from "./windows.ts";

let service: TestNotifications;
let pool: Pool;

beforeAll(async () => {
  service = await startNotifications();
  pool = service.pool;
});
afterAll(() => service.stop());

let count = 0;
/** Tells users something, as the handler of an event does. */
function tell(kind: KindKey, recipients: Recipient[], more: Partial<Notice> = {}) {
  const dedupe = `n${++count}`;
  const notice = { kind, accountId: "", title: dedupe, body: `Body of ${dedupe}.`, metadata: {}, dedupe };
  const options = { mails: true, now: () => service.clock.ms };
  return transaction(pool, (tx) => notify(tx, { ...notice, ...more, recipients }, options));
}

const set = (user: Recipient, kind: KindKey, channel: string, frequency: string) =>
  service.as(user.userId).setNotificationPref({ kind, channel, frequency });
const mailsOf = ({ email }: Recipient) => service.box.for(email);
const subjectsOf = (user: Recipient) => mailsOf(user).map(({ headers }) => headers.get("subject"));

/** Returns what became of the mail of a user's notification. */
async function decisionOf({ userId }: Recipient, title: string) {
  const { rows } = await pool.query("select id from notifications where user_id = $1 and title = $2", [
    userId,
    title,
  ]);
  const { mail } = await service.as(userId).getNotificationDecisions({ notificationId: rows[0].id });
  return mail!;
}
const settled = (user: Recipient, title: string, state: string) =>
  eventually(`the mail of ${title} is ${state}`, async () => {
    const mail = await decisionOf(user, title);
    return mail.state === state ? mail : undefined;
  });

/** Sets the clock to when the next digest is due. */
function toNext(digest: "daily" | "weekly") {
  service.clock.ms = windowAt(digest, service.clock.ms).next;
}
/** Waits until all that is due was taken up, and its mails are gone. */
const quiet = () =>
  eventually("nothing is due", async () => {
    const due = "mail_state = 'digest' and digest_id is null and digest_at <= $1";
    const text = `select (select count(*) from notifications where ${due}) + (select count(*) from mails) as n`;
    return (await pool.query(text, [new Date(service.clock.ms)])).rows[0].n === 0;
  });

test("what waits comes at 08:00 in one mail, though two processes make digests", async () => {
  const other = await service.startOne();
  const ada = service.user();
  await set(ada, "social.comment", "both", "daily");
  await tell("social.comment", [ada], { title: "first" });
  await tell("social.comment", [ada], { title: "second" });
  expect(await decisionOf(ada, "first")).toMatchObject({ state: "digest", attempts: 0 });
  service.clock.ms = windowAt("daily", service.clock.ms).next - 1;
  toNext("daily");
  await settled(ada, "first", "sent");
  await tell("social.comment", [ada], { title: "third" });
  await quiet();
  expect(subjectsOf(ada)).toEqual(["Your daily digest: 2 notifications"]);
  expect(await decisionOf(ada, "second")).toMatchObject({ state: "sent", attempts: 1 });
  expect((await decisionOf(ada, "third")).state).toBe("digest");
  toNext("daily");
  await settled(ada, "third", "sent");
  toNext("daily");
  await quiet();
  expect(mailsOf(ada)).toHaveLength(2);
  await other.stop();
});

test("the weekly digest comes on Monday, apart from the daily one", async () => {
  const bob = service.user();
  await tell("social.announcement", [bob], { title: "news" });
  await set(bob, "social.comment", "both", "daily");
  const monday = windowAt("weekly", service.clock.ms).next;
  service.clock.ms = monday - 24 * 3_600_000;
  await tell("social.comment", [bob], { title: "comment" });
  await quiet();
  expect(subjectsOf(bob)).toEqual([]);
  service.clock.ms = monday;
  await settled(bob, "news", "sent");
  await settled(bob, "comment", "sent");
  expect(subjectsOf(bob).sort()).toEqual([
    "Your daily digest: 1 notification",
    "Your weekly digest: 1 notification",
  ]);
});
