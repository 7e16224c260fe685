import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { windowKey } from "../attempts/keys.ts";
import { tokenIn } from "../testing.ts";
import { FIRST_PASSWORD, type MailedIdentity, someEmail, startMailedIdentity } from "./testing.ts";

const HOUR = 3600_000;
const EXPIRED = "422 validation_failed link_expired";
const NEW = "a-longer-second-password";

let mailed: MailedIdentity;
let it: MailedIdentity["it"];

beforeAll(async () => {
  mailed = await startMailedIdentity();
  it = mailed.it;
});
afterAll(() => mailed?.stop());

const reset = (link: string, password = NEW) =>
  it.visitor().passwords.completePasswordReset({ token: tokenIn(link), password });

describe("a password reset", () => {
  test("sets a new password by the mailed link, once, and ends all sessions but no personal token", async () => {
    const { email } = await mailed.person();
    const { token } = await it.anonymous().signIn({ email, password: FIRST_PASSWORD });
    const pat = await (await it.as(token)).sessions.createToken({ name: "ci" });
    await mailed.askReset(email.toUpperCase());
    const link = await mailed.linkTo(email, 2);
    expect((await mailed.mailTo(email, 2)).html).toContain(`<a href="${link}">Set a new password</a>`);
    expect(link).toMatch(/^https:\/\/berth\.example\.com\/password-reset#berth_rst_[\w-]{43}$/);
    expect(await refused(reset(link, "eleven-char"))).toBe("422 validation_failed weak_password");
    await reset(link);
    expect(await refused(it.lookup(token))).toBe("401 unauthenticated");
    await it.lookup(pat.token);
    await it.anonymous().signIn({ email, password: NEW });
    expect(await refused(reset(link, "a-third-password-now"))).toBe(EXPIRED);
  });

  test("has the same answer for an e-mail without a user, and mails nothing", async () => {
    const [{ email }, nobody] = [await mailed.person(), someEmail()];
    expect(await mailed.askReset(nobody)).toEqual(await mailed.askReset(email));
    await mailed.mailTo(email, 2);
    await mailed.settled();
    expect(mailed.box.for(nobody)).toEqual([]);
  });

  test("works for an hour, and one that was used ends the others", async () => {
    const { email } = await mailed.person();
    await mailed.askReset(email);
    const late = await mailed.linkTo(email, 2);
    it.clock.ms += HOUR;
    expect(await refused(reset(late))).toBe(EXPIRED);
    await Promise.all([mailed.askReset(email), mailed.askReset(email)]);
    const links = [await mailed.linkTo(email, 3), await mailed.linkTo(email, 4)];
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
    const { email } = await mailed.person();
    for (let i = 0; i < 5; i++) await mailed.askReset(email);
    await mailed.mailTo(email, 4);
    await mailed.settled();
    expect(mailed.box.for(email)).toHaveLength(4);
  });

  test("of a disabled user is not mailed, and one already mailed is refused", async () => {
    const { email, userId } = await mailed.person();
    await mailed.askReset(email);
    const link = await mailed.linkTo(email, 2);
    await it.pool.query("update users set disabled_at = now() where id = $1", [userId]);
    expect(await refused(reset(link))).toBe(EXPIRED);
    await mailed.askReset(email);
    await mailed.settled();
    expect(mailed.box.for(email)).toHaveLength(2);
  });

  test("admits a user who was locked out by others' guesses", async () => {
    const { email } = await mailed.person();
    const here = "203.0.113.99";
    const now = new Date(it.clock.ms);
    await it.pool.query(
      `insert into sign_in_attempts (key, failed_at, expires_at)
       values ($1, array_fill($2::timestamptz, array[50]), $2) on conflict (key) do update set failed_at = excluded.failed_at`,
      [windowKey("sign-in", email), now],
    );
    const signIn = () => it.anonymous(here).signIn({ email, password: NEW });
    expect(await refused(signIn())).toBe("429 rate_limited");
    await mailed.askReset(email);
    const token = tokenIn(await mailed.linkTo(email, 2));
    await it.visitor(here).passwords.completePasswordReset({ token, password: NEW });
    await signIn();
  });

  test("verifies the e-mail of a user created in advance, and ends earlier sessions and tokens", async () => {
    const { email, userId } = await mailed.person();
    await it.pool.query("update users set email_verified_at = null where id = $1", [userId]);
    const { token } = await it.anonymous().signIn({ email, password: FIRST_PASSWORD });
    const pat = await (await it.as(token)).sessions.createToken({ name: "theirs" });
    await mailed.askReset(email);
    await reset(await mailed.linkTo(email, 2));
    expect(await refused(it.lookup(pat.token))).toBe("401 unauthenticated");
    const session = await it.anonymous().signIn({ email, password: NEW });
    expect(await (await it.as(session.token)).sessions.getMe({})).toMatchObject({ emailVerified: true });
  });

  test("leaves a record that says who and how many sessions ended, and nothing secret", async () => {
    const { email, userId } = await mailed.person();
    await mailed.askReset(email);
    await reset(await mailed.linkTo(email, 2));
    const text = "select * from audit_events where action = 'auth.password_reset' and target = $1";
    const record = await eventually("the record", async () => (await it.pool.query(text, [userId])).rows[0]);
    expect(record).toMatchObject({ actor_kind: "user", actor_id: userId, metadata: { endedSessions: "1" } });
  });
});
