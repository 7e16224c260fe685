import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { refused, startIdentity, type TestIdentity } from "./testing.ts";

const PASSWORD = "a-long-first-password";
let it: TestIdentity;

beforeAll(async () => {
  it = await startIdentity();
});
afterAll(() => it.stop());

const someEmail = () => `${randomBytes(6).toString("hex")}@example.com`;
const owned = async (accountId: string) => (await it.as(it.ownerToken, accountId)).accounts;
const outcome = (call: Promise<unknown>) =>
  call.then(
    () => "done",
    () => refused(call),
  );

test("somebody new becomes a member with a first password and can sign in", async () => {
  const accounts = await owned(it.accountId);
  const email = someEmail();
  const made = await accounts.addMember({
    accountId: it.accountId,
    email: email.toUpperCase(),
    role: "editor",
    displayName: "Ada",
    password: PASSWORD,
  });
  expect(made).toMatchObject({ email, displayName: "Ada", role: "editor" });
  const { token } = await it.anonymous().signIn({ email, password: PASSWORD });
  expect((await it.lookup(token)).memberships).toMatchObject([{ accountId: it.accountId, role: "editor" }]);
});

test("a user of another account becomes a member by e-mail alone, in any case", async () => {
  const other = await it.account();
  const { email, userId } = await it.member("reader");
  const made = await (await owned(other)).addMember({
    accountId: other,
    email: email.toUpperCase(),
    role: "owner",
  });
  expect(made).toMatchObject({ userId, email, role: "owner" });
});

test("refusals of a new member name what is wrong", async () => {
  const accounts = await owned(it.accountId);
  const { email } = await it.member("reader");
  const { email: elsewhere } = await it.member("reader", await it.account());
  const add = (more: { email: string; role?: string; password?: string }) =>
    refused(accounts.addMember({ accountId: it.accountId, role: "reader", ...more }));
  expect(await add({ email: someEmail() })).toBe("422 validation_failed unknown_user");
  expect(await add({ email: someEmail(), password: "eleven-char" })).toBe(
    "422 validation_failed weak_password",
  );
  expect(await add({ email: someEmail(), password: "p".repeat(1025) })).toBe(
    "422 validation_failed too_long",
  );
  expect(await add({ email: "no-address" })).toBe("422 validation_failed invalid_email");
  expect(await add({ email: someEmail(), role: "admin" })).toBe("422 validation_failed invalid_choice");
  expect(await add({ email: elsewhere, password: PASSWORD })).toBe("422 validation_failed user_exists");
  expect(await add({ email })).toBe("409 already_member");
  expect(await add({ email, password: PASSWORD })).toBe("409 already_member");
});

test("a refused first password neither changes the user's own nor makes them a member", async () => {
  const { email, password, token } = await it.member("reader", await it.account());
  const accounts = await owned(it.accountId);
  await refused(
    accounts.addMember({ accountId: it.accountId, email, role: "owner", password: "another-password" }),
  );
  await it.anonymous().signIn({ email, password });
  expect((await it.lookup(token)).memberships.map((each) => each.accountId)).not.toContain(it.accountId);
});

test("one new e-mail added from many sides at once is one user and one member", async () => {
  const accounts = await owned(it.accountId);
  const request = { accountId: it.accountId, email: someEmail(), role: "reader", password: PASSWORD };
  const answers = await Promise.all(Array.from({ length: 6 }, () => outcome(accounts.addMember(request))));
  expect(answers.sort()).toEqual([...Array(5).fill("409 already_member"), "done"]);
  const { rows } = await it.pool.query("select id from users where email = $1", [request.email]);
  expect(rows).toHaveLength(1);
});

test("a role changes at once, and changing it to what it is does nothing", async () => {
  const accounts = await owned(it.accountId);
  const { userId, token } = await it.member("reader");
  const changed = await accounts.updateMember({ accountId: it.accountId, userId, role: "editor" });
  expect(changed).toMatchObject({ userId, role: "editor" });
  expect((await it.lookup(token)).memberships).toMatchObject([{ role: "editor" }]);
  expect(await accounts.updateMember({ accountId: it.accountId, userId, role: "editor" })).toEqual(changed);
  expect(await refused(accounts.updateMember({ accountId: it.accountId, userId, role: "god" }))).toBe(
    "422 validation_failed invalid_choice",
  );
});

test("a removed member has no access from that moment, and can be added again", async () => {
  const accounts = await owned(it.accountId);
  const { userId, token, email } = await it.member("editor");
  await accounts.removeMember({ accountId: it.accountId, userId });
  expect((await it.lookup(token)).memberships).toEqual([]);
  expect(await refused(accounts.removeMember({ accountId: it.accountId, userId }))).toBe("404 not_found");
  await accounts.addMember({ accountId: it.accountId, email, role: "reader" });
  expect((await it.lookup(token)).memberships).toMatchObject([{ role: "reader" }]);
});

test("somebody who is no member is not found, also when they are one elsewhere", async () => {
  const accounts = await owned(it.accountId);
  const { userId } = await it.member("reader", await it.account());
  for (const id of [userId, "usr_none"]) {
    const request = { accountId: it.accountId, userId: id };
    expect(await refused(accounts.updateMember({ ...request, role: "owner" }))).toBe("404 not_found");
    expect(await refused(accounts.removeMember(request))).toBe("404 not_found");
  }
});

test("the last owner can neither be removed nor demoted, and a disabled second one does not count", async () => {
  const accountId = await it.account();
  const accounts = await owned(accountId);
  const me = { accountId, userId: it.ownerId };
  const { userId } = await it.member("owner", accountId);
  await it.pool.query("update users set disabled_at = now() where id = $1", [userId]);
  expect(await refused(accounts.removeMember(me))).toBe("409 last_owner");
  expect(await refused(accounts.updateMember({ ...me, role: "editor" }))).toBe("409 last_owner");
  await it.pool.query("update users set disabled_at = null where id = $1", [userId]);
  await accounts.updateMember({ ...me, role: "editor" });
});

test("two owners who remove or demote each other at once leave one", async () => {
  for (let round = 0; round < 15; round++) {
    const accountId = await it.account();
    const { userId, token } = await it.member("owner", accountId);
    const mine = await owned(accountId);
    const theirs = (await it.as(token, accountId)).accounts;
    const answers = await Promise.all([
      outcome(mine.removeMember({ accountId, userId })),
      outcome(
        round % 2
          ? theirs.removeMember({ accountId, userId: it.ownerId })
          : theirs.updateMember({ accountId, userId: it.ownerId, role: "reader" }),
      ),
    ]);
    expect(answers.sort()).toEqual(["409 last_owner", "done"]);
    const text = "select count(*) as n from memberships where account_id = $1 and role = 'owner'";
    expect((await it.pool.query(text, [accountId])).rows[0].n).toBe(1);
  }
});

test("members are listed newest first, page by page, by when they joined", async () => {
  const accountId = await it.account();
  const accounts = await owned(accountId);
  const joined = [it.ownerId];
  const early = await it.member("reader");
  for (let i = 0; i < 3; i++) joined.push((await it.member("reader", accountId)).userId);
  await accounts.addMember({ accountId, email: early.email, role: "editor" });
  joined.push(early.userId);
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const { data, page } = await accounts.listMembers({ accountId, limit: 2, cursor });
    seen.push(...data.map((member) => member.userId));
    cursor = page!.nextCursor;
    expect(page!.hasMore).toBe(cursor !== "");
  } while (cursor);
  expect(seen).toEqual(joined.reverse());
  const { page } = await accounts.listMembers({ accountId, limit: 1 });
  const elsewhere = await owned(it.accountId);
  expect(await refused(elsewhere.listMembers({ accountId: it.accountId, cursor: page!.nextCursor }))).toBe(
    "400 malformed_request",
  );
});
