import { timestampMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseToken } from "../../kit/crypto/bearer-token.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { startIdentity, type TestIdentity } from "../testing.ts";

const DAY = 24 * 3600_000;
let it: TestIdentity;

beforeAll(async () => {
  it = await startIdentity();
});
afterAll(() => it.stop());

const sessionsOf = async (token: string) => (await it.as(token)).sessions;

test("a personal token works as its user, lasts 90 days, and its text is shown once", async () => {
  const { token: session, userId } = await it.member("editor");
  const sessions = await sessionsOf(session);
  const made = await sessions.createToken({ name: "ci" });
  expect(parseToken(made.token)).toBe("pat");
  expect(made.lastFour).toBe(made.token.slice(-4));
  expect(timestampMs(made.expiresAt!) - timestampMs(made.createdAt!)).toBe(90 * DAY);
  expect(await it.lookup(made.token)).toMatchObject({ userId, tokenId: made.id, kind: "token" });
  const { data } = await sessions.listTokens({});
  expect(data).toHaveLength(1);
  expect(data[0]).toMatchObject({ id: made.id, name: "ci", lastFour: made.lastFour });
  expect(
    JSON.stringify(data, (_, value) => (typeof value === "bigint" ? Number(value) : value)),
  ).not.toContain(made.token);
});

test("a token expires at its time, and is then no longer listed", async () => {
  const { token: session } = await it.member("editor");
  const made = await (await sessionsOf(session)).createToken({ name: "short", expiresInDays: 1 });
  const { sessions } = await it.as(made.token);
  it.clock.ms += DAY - 1;
  await it.lookup(made.token);
  expect((await sessions.listTokens({})).data).toHaveLength(1);
  it.clock.ms += 1;
  expect(await refused(it.lookup(made.token))).toBe("401 unauthenticated");
  expect(await refused(sessions.listTokens({}))).toBe("401 unauthenticated");
});

test.each([
  ["a name is missing", { name: "" }, "required"],
  ["a name is too long", { name: "n".repeat(81) }, "too_long"],
  ["it would last 0 days", { name: "n", expiresInDays: 0 }, "out_of_range"],
  ["it would last 366 days", { name: "n", expiresInDays: 366 }, "out_of_range"],
  ["the role is none", { name: "n", roleCap: "admin" }, "invalid_choice"],
])("no token is made when %s", async (_, request, reason) => {
  const sessions = await sessionsOf(it.ownerToken);
  expect(await refused(sessions.createToken(request))).toBe(`422 validation_failed ${reason}`);
});

test("a role cap lowers the role and never raises it", async () => {
  const owner = await sessionsOf(it.ownerToken);
  const low = await owner.createToken({ name: "low", roleCap: "reader" });
  expect(await it.lookup(low.token)).toMatchObject({ roleCap: "reader" });
  const lowMe = await (await sessionsOf(low.token)).getMe({});
  expect(lowMe.accounts.map((account) => account.myRole)).toEqual(["reader"]);

  const reader = await it.member("reader");
  const high = await (await sessionsOf(reader.token)).createToken({ name: "high", roleCap: "owner" });
  const highMe = await (await sessionsOf(high.token)).getMe({});
  expect(highMe.accounts.map((account) => account.myRole)).toEqual(["reader"]);
});

test("a token bound to an account shows no other, and only members can bind one", async () => {
  const owner = await sessionsOf(it.ownerToken);
  const other = await it.account();
  const bound = await owner.createToken({ name: "bound", accountId: other });
  const record = await it.lookup(bound.token);
  expect(record).toMatchObject({ accountId: other, memberships: [{ accountId: other, role: "owner" }] });
  const seen = await (await it.as(bound.token)).accounts.listAccounts({});
  expect(seen.data.map((account) => account.id)).toEqual([other]);
  const { token: stranger } = await it.member("owner");
  const asStranger = await sessionsOf(stranger);
  expect(await refused(asStranger.createToken({ name: "n", accountId: other }))).toBe("403 forbidden");
  expect(await refused(asStranger.createToken({ name: "n", accountId: "acc_none" }))).toBe("403 forbidden");
});

test("a limited token makes no wider token and no account", async () => {
  const owner = await sessionsOf(it.ownerToken);
  const other = await it.account();
  const capped = await it.as((await owner.createToken({ name: "capped", roleCap: "editor" })).token);
  const bound = await it.as((await owner.createToken({ name: "bound", accountId: other })).token);
  for (const request of [
    { name: "n" },
    { name: "n", roleCap: "owner" },
    { name: "n", accountId: other },
    { name: "n", roleCap: "owner", accountId: other },
  ])
    expect(await refused(capped.sessions.createToken(request))).toBe("403 forbidden");
  for (const request of [
    { name: "n" },
    { name: "n", roleCap: "reader" },
    { name: "n", accountId: it.accountId },
  ])
    expect(await refused(bound.sessions.createToken(request))).toBe("403 forbidden");
  await capped.sessions.createToken({ name: "n", roleCap: "editor" });
  await capped.sessions.createToken({ name: "n", roleCap: "reader", accountId: other });
  await bound.sessions.createToken({ name: "n", accountId: other });
  expect(await refused(capped.accounts.createAccount({ handle: "by-a-capped" }))).toBe("403 forbidden");
  expect(await refused(bound.accounts.createAccount({ handle: "by-a-bound" }))).toBe("403 forbidden");
});

test("a revoked token is refused at once, and revoking it again finds nothing", async () => {
  const owner = await sessionsOf(it.ownerToken);
  const made = await owner.createToken({ name: "to revoke" });
  const held = await sessionsOf(made.token);
  await owner.revokeToken({ tokenId: made.id });
  expect(await refused(it.lookup(made.token))).toBe("401 unauthenticated");
  expect(await refused(held.createToken({ name: "n" }))).toBe("401 unauthenticated");
  expect(await refused(owner.revokeToken({ tokenId: made.id }))).toBe("404 not_found");
  expect((await owner.listTokens({ limit: 100 })).data.map((token) => token.id)).not.toContain(made.id);
});

test("concurrent revocations of a token revoke it once", async () => {
  const owner = await sessionsOf(it.ownerToken);
  const made = await owner.createToken({ name: "to revoke" });
  const answers = await Promise.all(
    Array.from({ length: 8 }, () =>
      owner.revokeToken({ tokenId: made.id }).then(
        () => "done",
        () => "gone",
      ),
    ),
  );
  expect(answers.filter((answer) => answer === "done")).toHaveLength(1);
});

test("another user's token, a session and an unknown id cannot be revoked here", async () => {
  const owner = await it.as(it.ownerToken);
  const { token: session } = await it.member("editor");
  const member = await it.as(session);
  const notFound = "404 not_found";
  expect(await refused(member.sessions.revokeToken({ tokenId: owner.caller.tokenId! }))).toBe(notFound);
  expect(await refused(member.sessions.revokeToken({ tokenId: member.caller.tokenId! }))).toBe(notFound);
  expect(await refused(member.sessions.revokeToken({ tokenId: "tok_none" }))).toBe(notFound);
  await it.lookup(it.ownerToken);
  await it.lookup(session);
});

test("a limited token cannot revoke one that reaches further, and may revoke itself", async () => {
  const owner = await sessionsOf(it.ownerToken);
  const wide = await owner.createToken({ name: "wide" });
  const low = await owner.createToken({ name: "low", roleCap: "reader" });
  const sessions = await sessionsOf(low.token);
  expect(await refused(sessions.revokeToken({ tokenId: wide.id }))).toBe("403 forbidden");
  await it.lookup(wide.token);
  await sessions.revokeToken({ tokenId: low.id });
  expect(await refused(it.lookup(low.token))).toBe("401 unauthenticated");
});

test("the list of tokens pages newest first without gaps or repeats, and takes no foreign cursor", async () => {
  const { token } = await it.member("reader");
  const sessions = await sessionsOf(token);
  const made: string[] = [];
  for (let i = 0; i < 5; i++) made.push((await sessions.createToken({ name: `t${i}` })).id);
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const { data, page } = await sessions.listTokens({ limit: 2, cursor });
    seen.push(...data.map((each) => each.id));
    cursor = page!.nextCursor;
    expect(page!.hasMore).toBe(cursor !== "");
  } while (cursor);
  expect(seen).toEqual(made.sort().reverse());
  const { page } = await sessions.listTokens({ limit: 2 });
  const owner = await sessionsOf(it.ownerToken);
  expect(await refused(owner.listTokens({ cursor: page!.nextCursor }))).toBe("400 malformed_request");
  expect(await refused(owner.listTokens({ limit: 0 }))).toBe("422 validation_failed out_of_range");
  expect(await refused(owner.listTokens({ limit: 101 }))).toBe("422 validation_failed out_of_range");
});

test("a user has at most 100 tokens, however many are made at once; each that ends makes room", async () => {
  const { token } = await it.member("reader");
  const sessions = await sessionsOf(token);
  const make = () => sessions.createToken({ name: "one of many" });
  const made = [];
  while (made.length < 99) made.push(...(await Promise.all(Array.from({ length: 9 }, make))));
  const results = await Promise.all(Array.from({ length: 12 }, () => make().catch((error) => error)));
  const failures = results.filter((result) => result instanceof Error);
  expect(failures).toHaveLength(11);
  for (const failure of failures) {
    expect(await refused(Promise.reject(failure))).toBe("403 quota_exceeded");
    expect(String(failure.message)).toContain("Delete one at /me/tokens");
  }
  await sessions.revokeToken({ tokenId: made[0]!.id });
  await make();
  expect(await refused(make())).toBe("403 quota_exceeded");
});
