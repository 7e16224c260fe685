import { randomBytes } from "node:crypto";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RoleName } from "../../kit/rpc/caller-token.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { startIdentity, type TestIdentity, tokenIn } from "../testing.ts";

const DAY = 24 * 3600_000;
const PASSWORD = "a-long-first-password";
const EXPIRED = "422 validation_failed link_expired";
let it: TestIdentity;

beforeAll(async () => {
  it = await startIdentity({ PUBLIC_ORIGIN: "https://berth.example.com" });
});
afterAll(() => it.stop());

const someEmail = () => `${randomBytes(6).toString("hex")}@example.com`;

/** The invitations of an account of the first owner's, who is an operator. */
async function owned(accountId: string) {
  const { invitations } = await it.as(it.ownerToken, accountId);
  const invite = (email: string, role: RoleName = "reader") =>
    invitations.inviteMember({ accountId, email, role });
  return { ...invitations, invite };
}

/** An account whose owner is no operator. */
async function foreign() {
  const person = await it.member("reader");
  const { accounts } = await it.as(person.token);
  const { id } = await accounts.createAccount({ handle: `h${randomBytes(5).toString("hex")}` });
  const { invitations } = await it.as(person.token, id);
  const invite = (email: string, role: RoleName = "reader") =>
    invitations.inviteMember({ accountId: id, email, role });
  return { accountId: id, ...person, invitations, invite };
}

const mine = async (token: string) => (await it.as(token)).invitations;
const join = (link: string | undefined, password = PASSWORD) =>
  it.visitor().invitations.joinByInvitation({ token: tokenIn(link), password });

/** Creates a user as an older version did: an owner chose e-mail and first password. */
async function madeInAdvance() {
  const { token, userId, ...more } = await it.member("editor");
  await it.pool.query("update users set email_verified_at = null where id = $1", [userId]);
  return { token, userId, ...more };
}

describe("a new user", () => {
  test("joins by the link with name and password of their own, and can sign in", async () => {
    const { invite } = await owned(it.accountId);
    const email = someEmail();
    const made = await invite(email.toUpperCase(), "editor");
    expect(made).toMatchObject({ email, role: "editor", status: "invited", invitedBy: "owner@example.com" });
    expect(timestampMs(made.expiresAt!)).toBe(it.clock.ms + 7 * DAY);
    expect(made.link).toMatch(/^https:\/\/berth\.example\.com\/invitation#berth_inv_[\w-]{43}$/);
    const token = tokenIn(made.link);
    const opened = await it.visitor().invitations.openInvitation({ token });
    expect(opened).toMatchObject({ email, role: "editor", accountHandle: "owner", known: false });
    const joined = await it
      .visitor()
      .invitations.joinByInvitation({ token, password: PASSWORD, displayName: "Ada" });
    expect(joined.user).toMatchObject({ email, displayName: "Ada" });
    expect(joined.account).toMatchObject({ id: it.accountId, myRole: "editor" });
    const session = await it.anonymous().signIn({ email, password: PASSWORD });
    const { memberships } = await it.lookup(session.token);
    expect(memberships).toMatchObject([{ accountId: it.accountId, role: "editor" }]);
    expect(await (await it.as(session.token)).sessions.getMe({})).toMatchObject({ emailVerified: true });
  });

  test("is in no account before joining, and nowhere else in the database", async () => {
    const email = someEmail();
    await (await owned(it.accountId)).invite(email);
    const { rows } = await it.pool.query("select id from users where email = $1", [email]);
    expect(rows).toEqual([]);
    const { accounts } = await it.as(it.ownerToken, it.accountId);
    const { data } = await accounts.listMembers({ accountId: it.accountId, limit: 100 });
    expect(data.map((member) => member.email)).not.toContain(email);
  });

  test("finds a link used once, whoever uses it at the same time", async () => {
    const { link } = await (await owned(it.accountId)).invite(someEmail());
    const answers = await Promise.all(
      Array.from({ length: 6 }, () =>
        join(link).then(
          () => "joined",
          (error) => refused(Promise.reject(error)),
        ),
      ),
    );
    expect(answers.filter((answer) => answer === "joined")).toHaveLength(1);
    expect(new Set(answers)).toEqual(new Set(["joined", EXPIRED]));
    expect(await refused(join(link))).toBe(EXPIRED);
  });

  test("cannot use a link after seven days, nor one that was replaced or withdrawn, nor a made-up one", async () => {
    const { invite, resendInvitation, withdrawInvitation } = await owned(it.accountId);
    const old = await invite(someEmail());
    it.clock.ms += 7 * DAY;
    expect(await refused(join(old.link))).toBe(EXPIRED);
    const renewed = await resendInvitation({ accountId: it.accountId, invitationId: old.id });
    expect(renewed.link).not.toBe(old.link);
    expect(await refused(join(old.link))).toBe(EXPIRED);
    await it.visitor().invitations.openInvitation({ token: tokenIn(renewed.link) });
    await withdrawInvitation({ accountId: it.accountId, invitationId: old.id });
    expect(await refused(join(renewed.link))).toBe(EXPIRED);
    expect(await refused(it.visitor().invitations.openInvitation({ token: "berth_inv_x" }))).toBe(EXPIRED);
  });

  test("needs a password of 12 characters, and keeps the link when it was too short", async () => {
    const { link } = await (await owned(it.accountId)).invite(someEmail());
    expect(await refused(join(link, "eleven-char"))).toBe("422 validation_failed weak_password");
    await join(link);
  });

  test("who is invited to two accounts joins the first by link, and the second by accepting", async () => {
    const email = someEmail();
    const [one, two] = [await owned(it.accountId), await owned(await it.account())];
    const [first, second] = [await one.invite(email), await two.invite(email, "owner")];
    await join(first.link);
    expect(await refused(join(second.link))).toBe("409 user_exists");
    expect(await it.visitor().invitations.openInvitation({ token: tokenIn(second.link) })).toMatchObject({
      known: true,
    });
    const { token } = await it.anonymous().signIn({ email, password: PASSWORD });
    await (await mine(token)).acceptInvitation({ invitationId: second.id });
    expect((await it.lookup(token)).memberships).toHaveLength(2);
  });
});

describe("an existing user", () => {
  test("sees the invitation, and is a member only after accepting", async () => {
    const { accountId, invite, email: inviter } = await foreign();
    const { email, token } = await it.member("reader");
    const { id } = await invite(email, "owner");
    expect((await it.lookup(token)).memberships.map((each) => each.accountId)).not.toContain(accountId);
    const { data } = await (await mine(token)).listMyInvitations({});
    expect(data).toMatchObject([{ id, accountId, role: "owner", invitedBy: inviter }]);
    const account = await (await mine(token)).acceptInvitation({ invitationId: id });
    expect(account).toMatchObject({ id: accountId, myRole: "owner" });
    expect((await it.lookup(token)).memberships).toContainEqual(
      expect.objectContaining({ accountId, role: "owner" }),
    );
    expect((await (await mine(token)).listMyInvitations({})).data).toEqual([]);
    expect(await refused((await mine(token)).acceptInvitation({ invitationId: id }))).toBe("404 not_found");
  });

  test("declines, and is not asked again until invited again", async () => {
    const { accountId, invite } = await foreign();
    const { email, token } = await it.member("reader");
    const { id } = await invite(email);
    await (await mine(token)).declineInvitation({ invitationId: id });
    expect(await refused((await mine(token)).acceptInvitation({ invitationId: id }))).toBe("404 not_found");
    expect((await it.lookup(token)).memberships.map((each) => each.accountId)).not.toContain(accountId);
    await invite(email);
    expect((await (await mine(token)).listMyInvitations({})).data).toHaveLength(1);
  });

  test("can neither accept nor decline an invitation that is another user's, withdrawn or expired", async () => {
    const { invite } = await foreign();
    const [ada, bob] = [await it.member("reader"), await it.member("reader")];
    const { id } = await invite(ada.email);
    const answers = async (token: string, invitationId = id) => [
      await refused((await mine(token)).acceptInvitation({ invitationId })),
      await refused((await mine(token)).declineInvitation({ invitationId })),
    ];
    expect(await answers(bob.token)).toEqual(["404 not_found", "404 not_found"]);
    const other = await it.account();
    const withdrawn = await (await owned(other)).invite(ada.email);
    await (await owned(other)).withdrawInvitation({ accountId: other, invitationId: withdrawn.id });
    expect(await answers(ada.token, withdrawn.id)).toEqual(["404 not_found", "404 not_found"]);
    it.clock.ms += 7 * DAY;
    const session = await it.anonymous().signIn({ email: ada.email, password: ada.password });
    expect(await answers(session.token)).toEqual(["404 not_found", "404 not_found"]);
    expect((await (await mine(session.token)).listMyInvitations({})).data).toEqual([]);
  });

  test("cannot answer with a limited token", async () => {
    const { invite } = await foreign();
    const { email, token } = await it.member("reader");
    const { id } = await invite(email);
    const limited = await (await it.as(token)).sessions.createToken({ name: "ci", roleCap: "reader" });
    const { acceptInvitation, declineInvitation } = await mine(limited.token);
    expect(await refused(acceptInvitation({ invitationId: id }))).toBe("403 forbidden");
    expect(await refused(declineInvitation({ invitationId: id }))).toBe("403 forbidden");
  });
});

describe("what an inviter learns", () => {
  test("the answer about a known and about an unknown e-mail differs in nothing but the e-mail", async () => {
    const known = await it.member("reader");
    for (const { invite } of [await foreign(), await owned(await it.account())]) {
      const answers = [await invite(known.email), await invite(someEmail())];
      const shapes = answers.map(({ id, email, link, ...rest }) => ({
        ...rest,
        id: id.slice(0, 4),
        email: email.slice(-12),
        link: link?.slice(0, -43),
      }));
      expect(shapes[0]).toEqual(shapes[1]);
    }
  });

  test("only an operator gets the link, with a token that also covers the first account", async () => {
    expect((await (await foreign()).invite(someEmail())).link).toBeUndefined();
    const elsewhere = await it.account();
    expect((await (await owned(elsewhere)).invite(someEmail())).link).toBeDefined();
    const { sessions } = await it.as(it.ownerToken);
    const bound = await sessions.createToken({ name: "ci", accountId: elsewhere });
    const { invitations } = await it.as(bound.token, elsewhere);
    const made = await invitations.inviteMember({ accountId: elsewhere, email: someEmail(), role: "reader" });
    expect(made.link).toBeUndefined();
    const second = await it.member("owner");
    const { accounts } = await it.as(second.token);
    const { id } = await accounts.createAccount({ handle: `h${randomBytes(5).toString("hex")}` });
    const theirs = (await it.as(second.token, id)).invitations;
    const byOperator = await theirs.inviteMember({ accountId: id, email: someEmail(), role: "reader" });
    expect(byOperator.link).toBeDefined();
  });

  test("inviting a member, or an invited e-mail, is refused with its own reason", async () => {
    const { invite } = await owned(it.accountId);
    const { email } = await it.member("reader");
    expect(await refused(invite(email))).toBe("409 already_member");
    const other = someEmail();
    await invite(other);
    expect(await refused(invite(other.toUpperCase(), "owner"))).toBe("409 already_invited");
    expect(await refused(invite("no-address"))).toBe("422 validation_failed invalid_email");
    expect(await refused(invite(someEmail(), "god" as RoleName))).toBe(
      "422 validation_failed invalid_choice",
    );
  });

  test("of many invitations of one e-mail at once, one is made", async () => {
    const { invite } = await owned(it.accountId);
    const email = someEmail();
    const answers = await Promise.all(
      Array.from({ length: 6 }, () =>
        invite(email).then(
          () => "invited",
          (error) => refused(Promise.reject(error)),
        ),
      ),
    );
    expect(answers.sort()).toEqual([...Array(5).fill("409 already_invited"), "invited"]);
  });

  test("an expired invitation makes room for another, with its own role", async () => {
    const { invite } = await owned(it.accountId);
    const email = someEmail();
    const first = await invite(email);
    it.clock.ms += 7 * DAY;
    const second = await invite(email, "editor");
    expect(second.id).not.toBe(first.id);
    expect(second.role).toBe("editor");
  });
});

describe("a user created in advance", () => {
  test("keeps access, but neither sees nor accepts invitations to the e-mail", async () => {
    const { email, token } = await madeInAdvance();
    expect(await (await it.as(token)).sessions.getMe({})).toMatchObject({ emailVerified: false });
    const { invite } = await foreign();
    const { id } = await invite(email, "owner");
    expect((await (await mine(token)).listMyInvitations({})).data).toEqual([]);
    expect(await refused((await mine(token)).acceptInvitation({ invitationId: id }))).toBe("404 not_found");
    expect((await it.lookup(token)).memberships).toHaveLength(1);
  });

  test("belongs to whoever opens the link: earlier password, sessions and tokens are invalid", async () => {
    const { email, token, password, userId } = await madeInAdvance();
    const pat = await (await it.as(token)).sessions.createToken({ name: "kept" });
    const { invite } = await owned(await it.account());
    const { link } = await invite(email);
    expect(await it.visitor().invitations.openInvitation({ token: tokenIn(link) })).toMatchObject({
      known: false,
    });
    const joined = await join(link, "the-owner-of-the-mailbox");
    expect(joined.user!.id).toBe(userId);
    for (const gone of [token, pat.token]) expect(await refused(it.lookup(gone))).toBe("401 unauthenticated");
    expect(await refused(it.anonymous().signIn({ email, password }))).toBe("401 unauthenticated");
    const session = await it.anonymous().signIn({ email, password: "the-owner-of-the-mailbox" });
    expect((await it.lookup(session.token)).memberships).toHaveLength(2);
    expect(await (await it.as(session.token)).sessions.getMe({})).toMatchObject({ emailVerified: true });
  });
});

test("neither a link nor its token is stored in the clear", async () => {
  const { link } = await (await owned(it.accountId)).invite(someEmail());
  const token = tokenIn(link);
  const { rows } = await it.pool.query("select i::text as line from invitations i");
  const stored = rows.map((row) => row.line).join("\n");
  expect(stored).not.toContain(token);
  expect(stored).not.toContain(token.slice("berth_inv_".length));
});
