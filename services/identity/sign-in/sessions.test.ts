import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SessionService } from "../../../proto/gen/berth/identity/v1/identity_pb.ts";
import { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";
import { hashToken, makeToken, parseToken } from "../../kit/crypto/bearer-token.ts";
import type { Caller } from "../../kit/rpc/caller-token.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs } from "../../kit/testing/testing.ts";
import { attemptKey } from "../attempts/keys.ts";
import { sweep } from "../sweep.ts";
import { OWNER_PASSWORD, startIdentity, type TestIdentity } from "../testing.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const WRONG = "401 unauthenticated";
let it: TestIdentity;

beforeAll(async () => {
  it = await startIdentity();
});
afterAll(() => it.stop());

const signIn = (email: string, password: string, ip?: string) => it.anonymous(ip).signIn({ email, password });

test("signing in returns a session token that says who its user is and ends after 7 days", async () => {
  const session = await signIn("owner@example.com", OWNER_PASSWORD);
  expect(parseToken(session.token)).toBe("ses");
  expect(session.user).toMatchObject({ email: "owner@example.com", displayName: "owner", id: it.ownerId });
  expect(timestampMs(session.expiresAt!)).toBe(it.clock.ms + 7 * DAY);
  const record = await it.lookup(session.token);
  expect(record).toMatchObject({ userId: it.ownerId, kind: "session" });
  expect(record.memberships).toMatchObject([{ accountId: it.accountId, role: "owner" }]);
});

test("an e-mail signs in in any case, and with blanks around it", async () => {
  const { token, user } = await signIn("  Owner@EXAMPLE.com ", OWNER_PASSWORD);
  expect(user).toMatchObject({ id: it.ownerId, email: "owner@example.com" });
  expect((await it.lookup(token)).userId).toBe(it.ownerId);
});

test("a password signs in however the keyboard composes its accents", async () => {
  const { email, password, token, userId } = await it.member("reader");
  const accented = "café-au-lait-crème";
  const { passwords } = await it.as(token);
  await passwords.changePassword({ current: password, new: accented.normalize("NFC") });
  expect((await signIn(email, accented.normalize("NFD"))).user?.id).toBe(userId);
  expect(await refused(signIn(email, "cafe-au-lait-creme"))).toBe(WRONG);
});

test("a wrong password, an unknown e-mail and a disabled user get one and the same answer", async () => {
  const { email, password, userId } = await it.member("reader");
  await it.pool.query("update users set disabled_at = now() where id = $1", [userId]);
  const answers = await Promise.all(
    [
      signIn("owner@example.com", "not-the-password"),
      signIn("nobody@example.com", "not-the-password"),
      signIn(email, password),
    ].map((call) => call.catch((error) => ({ code: error.code, text: error.rawMessage }))),
  );
  expect(answers[0]).toMatchObject({ code: Code.Unauthenticated });
  expect(answers[1]).toEqual(answers[0]);
  expect(answers[2]).toEqual(answers[0]);
});

test("a user who was made without a password cannot sign in with any", async () => {
  await it.pool.query("insert into users (id, email, display_name) values ('usr_x', 'x@example.com', 'x')");
  expect(await refused(signIn("x@example.com", "any-password-at-all"))).toBe(WRONG);
});

test("one user may have many sessions at once", async () => {
  const { email, password } = await it.member("reader");
  const sessions = await Promise.all(Array.from({ length: 25 }, () => signIn(email, password)));
  expect(new Set(sessions.map((session) => session.token)).size).toBe(25);
});

test("a sign-in without e-mail or password, or with a NUL in them, is refused by its member", async () => {
  expect(await refused(signIn("", "some-password"))).toBe("422 validation_failed required");
  expect(await refused(signIn("a@example.com", ""))).toBe("422 validation_failed required");
  expect(await refused(signIn("a@example.com", "x".repeat(1025)))).toBe("422 validation_failed too_long");
  expect(await refused(signIn("a\u0000@example.com", "p"))).toBe("422 validation_failed invalid_text");
});

test("a session ends when it was idle for 12 hours, and use keeps it alive", async () => {
  const { token } = await signIn("owner@example.com", OWNER_PASSWORD);
  for (let i = 0; i < 3; i++) {
    it.clock.ms += 12 * HOUR - MINUTE;
    const { expiresAt } = await it.lookup(token);
    expect(timestampMs(expiresAt!)).toBe(it.clock.ms + 12 * HOUR);
  }
  it.clock.ms += 12 * HOUR;
  expect(await refused(it.lookup(token))).toBe(WRONG);
});

test("a session ends 7 days after signing in, however much it is used", async () => {
  const { token } = await signIn("owner@example.com", OWNER_PASSWORD);
  const end = it.clock.ms + 7 * DAY;
  while (it.clock.ms + 10 * HOUR < end) {
    it.clock.ms += 10 * HOUR;
    await it.lookup(token);
  }
  it.clock.ms = end - 1;
  expect(timestampMs((await it.lookup(token)).expiresAt!)).toBe(end);
  it.clock.ms = end;
  expect(await refused(it.lookup(token))).toBe(WRONG);
});

test("the use of a token is recorded once a minute at most", async () => {
  const { token } = await signIn("owner@example.com", OWNER_PASSWORD);
  const lastUsed = async () => {
    const text = "select last_used_at as at from tokens where hash = $1";
    return timestampMs((await it.pool.query(text, [hashToken(token)])).rows[0].at);
  };
  const made = await lastUsed();
  it.clock.ms += MINUTE - 1;
  await it.lookup(token);
  expect(await lastUsed()).toBe(made);
  it.clock.ms += 1;
  await Promise.all(Array.from({ length: 8 }, () => it.lookup(token)));
  expect(await lastUsed()).toBe(it.clock.ms);
});

test("signing out ends this session at once and no other", async () => {
  const [one, two] = await Promise.all([
    signIn("owner@example.com", OWNER_PASSWORD),
    signIn("owner@example.com", OWNER_PASSWORD),
  ]);
  const { sessions } = await it.as(one.token);
  await sessions.signOut({});
  expect(await refused(it.lookup(one.token))).toBe(WRONG);
  expect(await refused(sessions.getMe({}))).toBe(WRONG);
  await it.lookup(two.token);
});

test("signing out with a personal token is a conflict and leaves the token", async () => {
  const { sessions } = await it.as(it.ownerToken);
  expect(await refused(sessions.signOut({}))).toBe("409 conflict");
  await it.lookup(it.ownerToken);
});

test("only services may look up the user of a token", async () => {
  const ask = { tokenHash: hashToken(it.ownerToken) };
  const { caller } = await it.as(it.ownerToken);
  const nobody: Partial<Caller> = { kind: "anonymous", id: "" };
  expect(await refused(clientAs(InternalService, it.port, nobody).lookupCaller(ask))).toBe(WRONG);
  expect(await refused(clientAs(InternalService, it.port, caller).lookupCaller(ask))).toBe("403 forbidden");
});

test("an unknown token, a hash of another length, and tokens of a disabled user are not known", async () => {
  const { userId, token } = await it.member("editor");
  const asService = clientAs(InternalService, it.port, { kind: "service", id: "gateway" });
  expect(await refused(it.lookup(makeToken("pat")))).toBe(WRONG);
  expect(await refused(asService.lookupCaller({ tokenHash: new Uint8Array(5) }))).toBe(WRONG);
  await it.pool.query("update users set disabled_at = now() where id = $1", [userId]);
  expect(await refused(it.lookup(token))).toBe(WRONG);
});

test("me shows the caller with every account and the role there", async () => {
  const { token, email } = await it.member("reader");
  const { accounts, sessions } = await it.as(token);
  const own = await accounts.createAccount({ handle: "of-a-reader" });
  const me = await sessions.getMe({});
  expect(me.email).toBe(email);
  expect(me.accounts.map(({ id, myRole }) => [id, myRole])).toEqual([
    [own.id, "owner"],
    [it.accountId, "reader"],
  ]);
});

test("machines and anonymous callers have no /me", async () => {
  const machine = clientAs(SessionService, it.port, { kind: "machine", id: it.ownerId, tokenId: "x" });
  expect(await refused(machine.getMe({}))).toBe("403 machine_actor_forbidden");
  expect(await refused(it.anonymous().getMe({}))).toBe(WRONG);
  const stranger = clientAs(SessionService, it.port, { id: it.ownerId });
  expect(await refused(stranger.getMe({}))).toBe(WRONG);
});

test("neither passwords nor tokens are stored in the clear", async () => {
  const { email, password, token } = await it.member("reader");
  const tables = ["users", "tokens", "audit_events", "sign_in_attempts", "outbox"];
  const dump = await Promise.all(
    tables.map((name) => it.pool.query(`select t::text as line from ${name} t`)),
  );
  const text = dump.flatMap(({ rows }) => rows.map((row) => row.line)).join("\n");
  expect(text).toContain(email);
  expect(text).not.toContain(password);
  expect(text).not.toContain(token);
  const hash = await it.pool.query("select password_hash as hash from users where email = $1", [email]);
  expect(hash.rows[0].hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
});

test("sessions are deleted a day after their end, attempts when their window has passed, personal tokens never", async () => {
  const { token } = await signIn("owner@example.com", OWNER_PASSWORD);
  await refused(signIn("somebody@example.com", "wrong-password"));
  const kept = async () => {
    const { rows } = await it.pool.query("select count(*) as n from tokens where hash = any($1)", [
      [hashToken(token), hashToken(it.ownerToken)],
    ]);
    const own = attemptKey("somebody@example.com", "203.0.113.7");
    const attempts = await it.pool.query("select count(*) as n from sign_in_attempts where key = $1", [own]);
    return [rows[0].n, attempts.rows[0].n > 0];
  };
  await sweep(it.pool, new Date(it.clock.ms));
  expect(await kept()).toEqual([2, true]);
  await sweep(it.pool, new Date(it.clock.ms + 15 * MINUTE + 1));
  expect(await kept()).toEqual([2, false]);
  await sweep(it.pool, new Date(it.clock.ms + 8 * DAY));
  expect(await kept()).toEqual([2, false]);
  await sweep(it.pool, new Date(it.clock.ms + 8 * DAY + 1));
  expect(await kept()).toEqual([1, false]);
});
