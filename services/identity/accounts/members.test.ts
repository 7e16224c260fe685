import { afterAll, beforeAll, expect, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs } from "../../kit/testing/testing.ts";
import { startIdentity, type TestIdentity } from "../testing.ts";

let it: TestIdentity;

beforeAll(async () => {
  it = await startIdentity();
});
afterAll(() => it.stop());

const owned = async (accountId: string) => (await it.as(it.ownerToken, accountId)).accounts;
const outcome = (call: Promise<unknown>) =>
  call.then(
    () => "done",
    () => refused(call),
  );

test("a role changes at once, and setting it to its current value does nothing", async () => {
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

test("a removed member has no access from that moment, and can be invited again", async () => {
  const accounts = await owned(it.accountId);
  const { userId, token, email } = await it.member("editor");
  await accounts.removeMember({ accountId: it.accountId, userId });
  expect((await it.lookup(token)).memberships).toEqual([]);
  expect(await refused(accounts.removeMember({ accountId: it.accountId, userId }))).toBe("404 not_found");
  await it.invite({ email, token }, "reader", it.accountId);
  expect((await it.lookup(token)).memberships).toMatchObject([{ role: "reader" }]);
});

test("a user who is not a member is not found, even if a member of another account", async () => {
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

test("of two owners who remove or demote each other at once, one remains", async () => {
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
  await it.invite(early, "editor", accountId);
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

test("the operators are the owners of the first account, and services alone may ask for them", async () => {
  const [owner, editor] = [await it.member("owner"), await it.member("editor")];
  const elsewhere = await it.member("owner", await it.account());
  const { accountId, users } = await it.gateway.listOperators({});
  expect(accountId).toBe(it.accountId);
  const ids = users.map(({ userId }) => userId);
  expect(ids).toEqual(expect.arrayContaining([it.ownerId, owner.userId]));
  for (const { userId } of [editor, elsewhere]) expect(ids).not.toContain(userId);
  const { caller } = await it.as(it.ownerToken, it.accountId);
  expect(await refused(clientAs(InternalService, it.port, caller).listOperators({}))).toBe("403 forbidden");
});
