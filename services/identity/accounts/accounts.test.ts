import { afterAll, beforeAll, expect, test } from "vitest";
import { AccountService, SessionService } from "../../../proto/gen/berth/identity/v1/identity_pb.ts";
import { InvitationService } from "../../../proto/gen/berth/identity/v1/invitations_pb.ts";
import { PasswordService } from "../../../proto/gen/berth/identity/v1/passwords_pb.ts";
import { transaction } from "../../kit/postgres/db.ts";
import { counting } from "../../kit/testing/explaining.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs } from "../../kit/testing/testing.ts";
import { startIdentity, type TestIdentity } from "../testing.ts";
import { deleteAccount } from "./delete-account.ts";

let it: TestIdentity;

beforeAll(async () => {
  it = await startIdentity();
});
afterAll(() => it.stop());

test("a new account has its creator as owner and can be used at once", async () => {
  const { token, userId } = await it.member("reader");
  const { accounts } = await it.as(token);
  const made = await accounts.createAccount({ handle: "acme", displayName: "Acme Inc." });
  expect(made).toMatchObject({ handle: "acme", displayName: "Acme Inc.", myRole: "owner" });
  expect(made.createdAt).toBeDefined();
  const inside = await it.as(token, made.id);
  expect(inside.caller.role).toBe("owner");
  expect(await inside.accounts.getAccount({ accountId: made.id })).toEqual(made);
  const { data } = await inside.accounts.listMembers({ accountId: made.id });
  expect(data).toMatchObject([{ userId, role: "owner" }]);
});

test("an account without a display name is shown by its handle", async () => {
  const { accounts } = await it.as(it.ownerToken);
  expect(await accounts.createAccount({ handle: "no-name" })).toMatchObject({ displayName: "no-name" });
});

test.each(["ab", "a".repeat(40), "Acme", "-acme", "acme-", "ac me", "ac_me", ""])(
  "%j is no handle, neither for a new account nor for an old one",
  async (handle) => {
    const { accounts } = await it.as(it.ownerToken, it.accountId);
    const answer = "422 validation_failed invalid_handle";
    expect(await refused(accounts.createAccount({ handle }))).toBe(answer);
    expect(await refused(accounts.updateAccount({ accountId: it.accountId, handle }))).toBe(answer);
  },
);

test("of many requests for one handle at once, one gets it", async () => {
  const { accounts } = await it.as(it.ownerToken);
  const answers = await Promise.all(
    Array.from({ length: 8 }, () =>
      accounts.createAccount({ handle: "wanted" }).then(
        () => "made",
        () => "taken",
      ),
    ),
  );
  expect(answers.filter((answer) => answer === "made")).toHaveLength(1);
  expect(await refused(accounts.createAccount({ handle: "wanted" }))).toBe("409 handle_taken");
});

test("handle and display name change, each alone, and a taken handle does not", async () => {
  const accountId = await it.account();
  const { accounts } = await it.as(it.ownerToken, accountId);
  const renamed = await accounts.updateAccount({ accountId, displayName: "New name" });
  expect(renamed).toMatchObject({ id: accountId, displayName: "New name", myRole: "owner" });
  const moved = await accounts.updateAccount({ accountId, handle: "moved-there" });
  expect(moved).toMatchObject({ displayName: "New name", handle: "moved-there" });
  expect(await accounts.updateAccount({ accountId, handle: "moved-there" })).toEqual(moved);
  await accounts.createAccount({ handle: "somebodys" });
  expect(await refused(accounts.updateAccount({ accountId, handle: "somebodys" }))).toBe("409 handle_taken");
  expect(await accounts.getAccount({ accountId })).toEqual(moved);
});

test("an empty change is refused", async () => {
  const { accounts } = await it.as(it.ownerToken, it.accountId);
  expect(await refused(accounts.updateAccount({ accountId: it.accountId }))).toBe(
    "422 validation_failed empty_patch",
  );
});

test("a display name is neither empty nor over 80 characters nor holds a NUL", async () => {
  const { accounts } = await it.as(it.ownerToken, it.accountId);
  const rename = (displayName: string) =>
    refused(accounts.updateAccount({ accountId: it.accountId, displayName }));
  expect(await rename("")).toBe("422 validation_failed required");
  expect(await rename("n".repeat(81))).toBe("422 validation_failed too_long");
  expect(await rename("a\u0000b")).toBe("422 validation_failed invalid_text");
});

test("the list shows all accounts of the caller and no other, newest first, page by page", async () => {
  const { token } = await it.member("editor");
  const { accounts } = await it.as(token);
  const made: string[] = [it.accountId];
  for (let i = 0; i < 4; i++) made.push((await accounts.createAccount({ handle: `of-mine-${i}` })).id);
  await it.account();
  const seen: [string, string][] = [];
  let cursor: string | undefined;
  do {
    const { data, page } = await accounts.listAccounts({ limit: 2, cursor });
    seen.push(...data.map(({ id, myRole }): [string, string] => [id, myRole]));
    cursor = page!.nextCursor;
    expect(page!.hasMore).toBe(cursor !== "");
  } while (cursor);
  expect(seen.map(([id]) => id)).toEqual(made.sort().reverse());
  expect(Object.fromEntries(seen)[it.accountId]).toBe("editor");
  expect(await refused(accounts.listAccounts({ cursor: "bm90LW91cnM" }))).toBe("400 malformed_request");
});

test("each role reads the account, and only an owner changes it members or sees the audit log", async () => {
  for (const role of ["reader", "editor"] as const) {
    const { token } = await it.member(role);
    const { accounts, invitations } = await it.as(token, it.accountId);
    expect(await accounts.getAccount({ accountId: it.accountId })).toMatchObject({ myRole: role });
    const request = { accountId: it.accountId, userId: it.ownerId, email: "a@example.com", role: "reader" };
    for (const call of [
      accounts.updateAccount({ accountId: it.accountId, displayName: "n" }),
      invitations.inviteMember(request),
      invitations.listInvitations(request),
      invitations.getInvitation({ ...request, invitationId: "inv_x" }),
      invitations.resendInvitation({ ...request, invitationId: "inv_x" }),
      invitations.withdrawInvitation({ ...request, invitationId: "inv_x" }),
      accounts.updateMember(request),
      accounts.removeMember(request),
      accounts.listAuditEvents({ accountId: it.accountId }),
    ])
      expect(await refused(call)).toBe("403 forbidden");
  }
});

test("a role in one account is none in another, and machines change nothing", async () => {
  const other = await it.account();
  const { accounts } = await it.as(it.ownerToken, it.accountId);
  expect(await refused(accounts.getAccount({ accountId: other }))).toBe("403 forbidden");
  const caller = { kind: "machine" as const, id: it.ownerId, accountId: other, role: "owner" as const };
  const machine = clientAs(AccountService, it.port, caller);
  const invitations = clientAs(InvitationService, it.port, caller);
  const invitation = { accountId: other, invitationId: "inv_x" };
  expect(await machine.getAccount({ accountId: other })).toMatchObject({ id: other });
  for (const call of [
    machine.createAccount({ handle: "by-machine" }),
    machine.updateAccount({ accountId: other, displayName: "n" }),
    invitations.inviteMember({ accountId: other, email: "a@example.com", role: "reader" }),
    invitations.resendInvitation(invitation),
    invitations.withdrawInvitation(invitation),
    invitations.listMyInvitations({}),
    invitations.acceptInvitation(invitation),
    invitations.declineInvitation(invitation),
    clientAs(PasswordService, it.port, caller).changePassword({ current: "x", new: "y" }),
    clientAs(SessionService, it.port, caller).listSessions({}),
    clientAs(SessionService, it.port, caller).endSession({ sessionId: "tok_x" }),
    machine.updateMember({ accountId: other, userId: it.ownerId, role: "reader" }),
    machine.removeMember({ accountId: other, userId: it.ownerId }),
  ])
    expect(await refused(call)).toBe("403 machine_actor_forbidden");
});

test("names that others see contain no invisible or bidirectional characters, wherever they are set", async () => {
  const { accounts, sessions } = await it.as(it.ownerToken);
  const inside = await it.as(it.ownerToken, it.accountId);
  const setting: Record<string, (text: string) => Promise<unknown>> = {
    createAccount: (displayName) => accounts.createAccount({ handle: "never-made", displayName }),
    updateAccount: (displayName) => inside.accounts.updateAccount({ accountId: it.accountId, displayName }),
    updateMe: (displayName) => sessions.updateMe({ displayName }),
    createToken: (name) => sessions.createToken({ name }),
    joinByInvitation: (displayName) =>
      it
        .visitor("198.51.100.60")
        .invitations.joinByInvitation({ token: "t", password: "x".repeat(12), displayName }),
  };
  const hidden = [
    "a\u0007b",
    "a\nb",
    "a\u2028b",
    "moc.\u202egnp",
    "\u2066a",
    "a\u200bb",
    "\ufeffa",
    "\u{e0041}a",
  ];
  for (const [name, set] of Object.entries(setting))
    for (const text of [...hidden, " ", "\u3164", "\u200d"])
      expect([name, text, await refused(set(text))]).toEqual([
        name,
        text,
        "422 validation_failed invalid_text",
      ]);
  for (const text of ["Ada Lovelace", "Zoë 👩‍👩‍👧", "نام‌ها", "שלום", "O’Brien – R&D"])
    expect(await setting.updateAccount!(text)).toMatchObject({ displayName: text });
});

test("an account with many members and grants is deleted in as many statements as one with a few", async () => {
  const statementsFor = async (members: number) => {
    const accountId = await it.account();
    const join = `with joined as (
        insert into users (id, email, display_name) select $1 || n, $1 || n || '@example.com', 'Member'
        from generate_series(1, $2::int) n returning id),
      members as (
        insert into memberships (id, account_id, user_id, role) select 'mem_' || id, $1, id, 'reader' from joined)
      insert into oauth_grants
        (id, user_id, client_id, client_name, account_id, membership_id, role, granted_at, expires_at)
      select 'grt_' || id, id, 'client', 'Client', $1, 'mem_' || id, 'reader', now(), now() + interval '1 day' from joined`;
    await it.pool.query(join, [accountId, members]);
    const by = { caller: { kind: "user" as const, id: it.ownerId, ip: "" }, requestId: "req" };
    const statements = await transaction(it.pool, async (tx) => {
      const { db, counted } = counting(tx);
      await deleteAccount(db, by, accountId, new Date());
      return counted.statements;
    });
    const { rows } = await it.pool.query<{ kind: string; count: number }>(
      `select split_part(subject, '.', 4) as kind, count(*)::int from
         (select subject from outbox union all select subject from outbox_sent) as emitted
       where subject like '%.' || $1 group by 1`,
      [accountId],
    );
    const counts = Object.fromEntries(rows.map(({ kind, count }) => [kind, count]));
    expect(counts).toMatchObject({ MemberRemoved: members + 1, GrantRevoked: members, AccountDeleted: 1 });
    return statements;
  };
  expect(await statementsFor(40)).toBe(await statementsFor(2));
});
