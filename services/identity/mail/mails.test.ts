import { randomBytes } from "node:crypto";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { queueMail } from "../../kit/mail/mail.ts";
import { createPool } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import { readConfig } from "../../kit/process/config.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { type Mailbox, startMailbox } from "../../kit/testing/smtp-server.ts";
import { eventually, testDatabase } from "../../kit/testing/testing.ts";
import { fields, linkSettings } from "../config.ts";
import { windowKey } from "../sign-in/attempt-keys.ts";
import { startIdentity, type TestIdentity, testEnv, tokenIn } from "../testing.ts";
import { createLinks } from "./links.ts";

const HOUR = 3600_000;
const EXPIRED = "422 validation_failed link_expired";
const NEW = "a-longer-second-password";
let box: Mailbox;
let it: TestIdentity;

beforeAll(async () => {
  box = await startMailbox();
  it = await startIdentity({
    SMTP_URL: box.url,
    MAIL_FROM: "berth@example.com",
    PUBLIC_ORIGIN: "https://berth.example.com",
  });
});
afterAll(async () => {
  await it.stop();
  await box.stop();
});

const someEmail = () => `${randomBytes(6).toString("hex")}@example.com`;

const mailTo = (email: string, count = 1) =>
  eventually(`mail ${count} to ${email}`, async () => box.for(email)[count - 1]);

/** The link in the newest mail to an e-mail. */
async function linkTo(email: string, count = 1): Promise<string> {
  const link = /^https:\S+$/m.exec((await mailTo(email, count)).text);
  expect(link).not.toBeNull();
  return link![0];
}

/** Everything queued has been sent or dropped. */
const settled = () =>
  eventually("no mail waits", async () => (await it.pool.query("select 1 from mails")).rowCount === 0);

async function invite(email: string, accountId = it.accountId) {
  const { invitations } = await it.as(it.ownerToken, accountId);
  return invitations.inviteMember({ accountId, email, role: "editor" });
}

const joinBy = (link: string, password = "a-long-first-password") =>
  it.visitor().invitations.joinByInvitation({ token: tokenIn(link), password });

/** Somebody who joined by the link of a mail. */
async function person() {
  const email = someEmail();
  await invite(email);
  const { user } = await joinBy(await linkTo(email));
  await it.anonymous().signIn({ email, password: "a-long-first-password" });
  return { email, userId: user!.id };
}

const askReset = (email: string) => it.visitor().passwords.requestPasswordReset({ email });
const reset = (link: string, password = NEW) =>
  it.visitor().passwords.completePasswordReset({ token: tokenIn(link), password });

describe("an invitation", () => {
  test("is mailed with its link, which no answer carries then, not even an operator's", async () => {
    const email = someEmail();
    const { link } = await invite(email);
    expect(link).toBeUndefined();
    const mail = await mailTo(email);
    expect(mail.headers.get("subject")).toBe("Invitation to the account owner");
    expect(mail.text).toContain("owner@example.com invites you to the account owner");
    expect(mail.text).toContain("as editor");
    expect(await linkTo(email)).toMatch(/^https:\/\/berth\.example\.com\/invitation#berth_inv_[\w-]{43}$/);
    expect((await joinBy(await linkTo(email))).user).toMatchObject({ email });
  });

  test("mails a known e-mail the same words as an unknown one", async () => {
    const { email } = await person();
    const accountId = await it.account();
    const other = someEmail();
    await Promise.all([invite(email, accountId), invite(other, accountId)]);
    const texts = [await mailTo(email, 2), await mailTo(other)].map(({ text }) =>
      text.replace(/#berth_inv_[\w-]{43}/, "#"),
    );
    expect(texts[0]).toBe(texts[1]);
  });

  test("that is sent again has a new link, and the one before works no more", async () => {
    const email = someEmail();
    const { id } = await invite(email);
    const first = await linkTo(email);
    const { invitations } = await it.as(it.ownerToken, it.accountId);
    await invitations.resendInvitation({ accountId: it.accountId, invitationId: id });
    const second = await linkTo(email, 2);
    expect(second).not.toBe(first);
    expect(await refused(joinBy(first))).toBe(EXPIRED);
    await joinBy(second);
  });

  test("names the account by its handle only: a display name may be made to mislead", async () => {
    const { accounts } = await it.as(it.ownerToken);
    const displayName = "Win at https://evil.example.com\r\nBcc: all@example.com";
    const { id } = await accounts.createAccount({
      handle: `h${randomBytes(5).toString("hex")}`,
      displayName,
    });
    const email = someEmail();
    await invite(email, id);
    const mail = await mailTo(email);
    expect(mail.raw).not.toContain("evil.example.com");
    expect(mail.headers.has("bcc")).toBe(false);
  });

  test("fills nobody's mailbox: 10 mails a day to one e-mail, whoever invites", async () => {
    const email = someEmail();
    for (let i = 0; i < 12; i++) {
      const { status } = await invite(email, await it.account());
      expect(status).toBe("invited");
    }
    await mailTo(email, 10);
    await settled();
    expect(box.for(email)).toHaveLength(10);
  });

  test("that was withdrawn before its mail went out is not mailed", async () => {
    const email = someEmail();
    const { id } = await invite(email);
    await mailTo(email);
    const { invitations } = await it.as(it.ownerToken, it.accountId);
    await invitations.withdrawInvitation({ accountId: it.accountId, invitationId: id });
    await queueMail(it.pool, { kind: "invitation", address: email, data: { invitationId: id } });
    await settled();
    expect(box.for(email)).toHaveLength(1);
  });
});

describe("a password reset", () => {
  test("sets a new password by the mailed link, once, and ends all sessions but no personal token", async () => {
    const { email } = await person();
    const { token } = await it.anonymous().signIn({ email, password: "a-long-first-password" });
    const pat = await (await it.as(token)).sessions.createToken({ name: "ci" });
    await askReset(email.toUpperCase());
    const link = await linkTo(email, 2);
    expect(link).toMatch(/^https:\/\/berth\.example\.com\/password-reset#berth_rst_[\w-]{43}$/);
    expect(await refused(reset(link, "eleven-char"))).toBe("422 validation_failed weak_password");
    await reset(link);
    expect(await refused(it.lookup(token))).toBe("401 unauthenticated");
    await it.lookup(pat.token);
    await it.anonymous().signIn({ email, password: NEW });
    expect(await refused(reset(link, "a-third-password-now"))).toBe(EXPIRED);
  });

  test("answers the same of an e-mail that nobody has, and mails nothing", async () => {
    const [{ email }, nobody] = [await person(), someEmail()];
    expect(await askReset(nobody)).toEqual(await askReset(email));
    await mailTo(email, 2);
    await settled();
    expect(box.for(nobody)).toEqual([]);
  });

  test("works for an hour, and one that was used ends the others", async () => {
    const { email } = await person();
    await askReset(email);
    const late = await linkTo(email, 2);
    it.clock.ms += HOUR;
    expect(await refused(reset(late))).toBe(EXPIRED);
    await Promise.all([askReset(email), askReset(email)]);
    const links = [await linkTo(email, 3), await linkTo(email, 4)];
    const answers = await Promise.all(
      links.map((link) =>
        reset(link).then(
          () => "set",
          (error) => refused(Promise.reject(error)),
        ),
      ),
    );
    expect(answers.sort()).toEqual([EXPIRED, "set"]);
  });

  test("is mailed 3 times an hour at most, with the same answer", async () => {
    const { email } = await person();
    for (let i = 0; i < 5; i++) await askReset(email);
    await mailTo(email, 4);
    await settled();
    expect(box.for(email)).toHaveLength(4);
  });

  test("of a disabled user is not mailed, and one on its way is refused", async () => {
    const { email, userId } = await person();
    await askReset(email);
    const link = await linkTo(email, 2);
    await it.pool.query("update users set disabled_at = now() where id = $1", [userId]);
    expect(await refused(reset(link))).toBe(EXPIRED);
    await askReset(email);
    await settled();
    expect(box.for(email)).toHaveLength(2);
  });

  test("lets in who was shut out by others' guesses", async () => {
    const { email } = await person();
    const here = "203.0.113.99";
    const now = new Date(it.clock.ms);
    await it.pool.query(
      `insert into sign_in_attempts (key, failed_at, expires_at)
       values ($1, array_fill($2::timestamptz, array[50]), $2) on conflict (key) do update set failed_at = excluded.failed_at`,
      [windowKey("sign-in", email), now],
    );
    const signIn = () => it.anonymous(here).signIn({ email, password: NEW });
    expect(await refused(signIn())).toBe("429 rate_limited");
    await askReset(email);
    const token = tokenIn(await linkTo(email, 2));
    await it.visitor(here).passwords.completePasswordReset({ token, password: NEW });
    await signIn();
  });

  test("proves the e-mail of a user who was made in advance, and ends what was in other hands", async () => {
    const { email, userId } = await person();
    await it.pool.query("update users set email_verified_at = null where id = $1", [userId]);
    const { token } = await it.anonymous().signIn({ email, password: "a-long-first-password" });
    const pat = await (await it.as(token)).sessions.createToken({ name: "theirs" });
    await askReset(email);
    await reset(await linkTo(email, 2));
    expect(await refused(it.lookup(pat.token))).toBe("401 unauthenticated");
    const session = await it.anonymous().signIn({ email, password: NEW });
    expect(await (await it.as(session.token)).sessions.getMe({})).toMatchObject({ emailVerified: true });
  });

  test("leaves a record that says who and how many sessions ended, and nothing secret", async () => {
    const { email, userId } = await person();
    await askReset(email);
    await reset(await linkTo(email, 2));
    const text = "select * from audit_events where action = 'auth.password_reset' and target = $1";
    const record = await eventually("the record", async () => (await it.pool.query(text, [userId])).rows[0]);
    expect(record).toMatchObject({ actor_kind: "user", actor_id: userId, metadata: { endedSessions: "1" } });
  });
});

test("what opens a link stands in the mail alone, in no table", async () => {
  const { email } = await person();
  await invite(someEmail());
  await askReset(email);
  const tokens = [tokenIn(await linkTo(email)), tokenIn(await linkTo(email, 2))];
  const { rows } = await it.pool.query(
    "select table_name as name from information_schema.tables where table_schema = current_schema()",
  );
  expect(rows.length).toBeGreaterThan(10);
  for (const { name } of rows) {
    const all = await it.pool.query(`select t::text as line from ${name} t`);
    const text = all.rows.map((row) => row.line).join("\n");
    for (const token of tokens) expect(text.includes(token.slice("berth_inv_".length))).toBe(false);
  }
});

test("a link is found again with the key that made it, also when another signs by now", () => {
  const [old, next] = [randomBytes(32), randomBytes(32)];
  const { url, hash } = createLinks([old], "https://x").make("inv", "seed");
  expect(createLinks([next, old], "https://x").find("inv", "seed", hash)).toBe(url);
  expect(createLinks([next], "https://x").find("inv", "seed", hash)).toBeUndefined();
  expect(createLinks([old], "https://x").find("rst", "seed", hash)).toBeUndefined();
});

test("of the users of an older version only the first owner's e-mail is vouched for, also while it still runs", async () => {
  const database = await testDatabase(["identity"]);
  const pool = createPool(database.url("identity"));
  const older = await mkdtemp(join(tmpdir(), "berth-migrations-"));
  const folder = join(import.meta.dirname, "../migrations");
  const addUser = (id: string) =>
    pool.query("insert into users (id, email, display_name, password_hash) values ($1, $2, $1, 'x')", [
      id,
      `${id}@example.com`,
    ]);
  try {
    for (const name of ["0001-identity.sql", "0002-known-networks.sql"])
      await cp(join(folder, name), join(older, name));
    await migrate(pool, older);
    await addUser("usr_first");
    await addUser("usr_made");
    await pool.query("insert into accounts (id, handle, display_name) values ('acc_1', 'first', 'first')");
    await pool.query("insert into bootstrap (email, user_id, account_id) values ('e', 'usr_first', 'acc_1')");
    await migrate(pool, folder);
    await addUser("usr_late");
    const { rows } = await pool.query("select id from users where email_verified_at is not null");
    expect(rows).toEqual([{ id: "usr_first" }]);
  } finally {
    await pool.end();
    await Promise.all([database.drop(), rm(older, { recursive: true })]);
  }
});

test("mail needs to know where its links lead", () => {
  const mail = { SMTP_URL: box.url, MAIL_FROM: "berth@example.com" };
  const settings = (more: object) =>
    linkSettings(readConfig(testEnv("postgres://x/y", "nats://x", { ...mail, ...more }), fields));
  expect(() => settings({})).toThrow("SMTP_URL needs PUBLIC_ORIGIN");
  expect(settings({ PUBLIC_ORIGIN: "https://x.example.com/" }).origin).toBe("https://x.example.com");
});
