import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { headers as natsHeaders } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { EVENT_ID } from "../../kit/events/outbox.ts";
import { newId } from "../../kit/ids.ts";
import { openEvents } from "../../kit/testing/events.ts";
import { explaining, mostRows } from "../../kit/testing/explaining.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { OWNER_PASSWORD, startIdentity, type TestIdentity } from "../testing.ts";
import { listAuditEvents } from "./sql.ts";

const START = Date.parse("2026-03-01T00:00:00Z");
let it: TestIdentity;
let events: Awaited<ReturnType<typeof openEvents>>;

beforeAll(async () => {
  it = await startIdentity();
  events = await openEvents(it.nats.url);
});
afterAll(async () => {
  await events.close();
  await it.stop();
});

type Sent = Exclude<MessageInitShape<typeof AuditRecordedSchema>, { $typeName: string }>;

/** Sends an audit record as another service's relay does. */
const send = (service: Parameters<typeof events.publish>[0], record: Sent, eventId?: string) =>
  events.publish(service, AuditRecordedSchema, record.accountId || "none", record, eventId);

function record(accountId: string, at: number, more: Sent = {}): Sent {
  return {
    id: newId("aud", at),
    accountId,
    action: "variable.reveal",
    actor: { kind: "user", id: it.ownerId, tokenId: "tok_1" },
    target: "API_KEY",
    metadata: { scope: "project" },
    requestId: "req-1",
    ip: "203.0.113.7",
    at: timestampFromMs(at),
    ...more,
  };
}

const reader = async (accountId: string) => (await it.as(it.ownerToken, accountId)).accounts;

/** All records of an account once there are this many, newest first. */
async function log(accountId: string, atLeast: number) {
  const accounts = await reader(accountId);
  return eventually(`${atLeast} audit records`, async () => {
    const { data } = await accounts.listAuditEvents({ accountId, limit: 100 });
    return data.length >= atLeast && data;
  });
}

/** Waits until everything sent so far has been handled. */
async function settled() {
  const mark = newId("aud");
  await send("variables", { ...record("acc_mark", Date.now()), id: mark });
  await eventually("the consumer is through", async () => {
    const { rowCount } = await it.pool.query("select 1 from audit_events where id = $1", [mark]);
    return rowCount === 1;
  });
}

test("records of every service are in the account's audit log, complete", async () => {
  const accountId = await it.account();
  const sent = [record(accountId, START), record(accountId, START + 1, { action: "deployment.create" })];
  await send("variables", sent[0]!);
  await send("deployer", sent[1]!);
  const [created, second, first] = await log(accountId, 3);
  expect(created).toMatchObject({ action: "account.create" });
  expect(second).toMatchObject({ action: "deployment.create" });
  const { accountId: _, ...shown } = sent[0]!;
  expect(first).toMatchObject(shown);
  expect(first?.actor).toMatchObject({ kind: "user", id: it.ownerId, tokenId: "tok_1" });
});

test("an actor without a token shows none", async () => {
  const accountId = await it.account();
  await send("deployer", record(accountId, START, { actor: { kind: "service", id: "deployer" } }));
  const data = await log(accountId, 2);
  expect(data[1]?.actor).toMatchObject({ kind: "service", id: "deployer" });
  expect(data[1]?.actor?.tokenId).toBeUndefined();
});

test("a record that is delivered again, even as another event, is kept once", async () => {
  const accountId = await it.account();
  const sent = record(accountId, START);
  await send("variables", sent, "evt_same");
  await send("variables", sent, "evt_same");
  await send("variables", sent);
  await settled();
  expect(await log(accountId, 2)).toHaveLength(2);
});

test("a record under an event id that was handled already changes nothing", async () => {
  const accountId = await it.account();
  await send("variables", record(accountId, START), "evt_once");
  await send("variables", record(accountId, START + 1), "evt_once");
  await settled();
  expect(await log(accountId, 2)).toHaveLength(2);
});

test("an unreadable record does not block those after it", async () => {
  const accountId = await it.account();
  const headers = natsHeaders();
  headers.set(EVENT_ID, newId("evt"));
  await events.js.publish(`berth.variables.v1.AuditRecorded.${accountId}`, Uint8Array.of(0xff), {
    headers,
  });
  await send("variables", record(accountId, START));
  expect(await log(accountId, 2)).toHaveLength(2);
});

test("pages run from newest to oldest by time, whatever the order of arrival, without gaps or repeats", async () => {
  const accountId = await it.account();
  const times = [5, 2, 9, 1, 7, 3, 8];
  for (const time of times) await send("variables", record(accountId, START + time));
  await log(accountId, 8);
  const accounts = await reader(accountId);
  const seen: number[] = [];
  let cursor: string | undefined;
  do {
    const { data, page } = await accounts.listAuditEvents({
      accountId,
      action: "variable.reveal",
      limit: 3,
      cursor,
    });
    seen.push(...data.map((each) => timestampMs(each.at!) - START));
    cursor = page!.nextCursor;
    expect(page!.hasMore).toBe(cursor !== "");
  } while (cursor);
  expect(seen).toEqual([9, 8, 7, 5, 3, 2, 1]);
});

test("filters by action, actor and time narrow the log, alone and together", async () => {
  const accountId = await it.account();
  const actors = ["usr_a", "usr_b"];
  const actions = ["variable.create", "variable.delete", "project.create"];
  const all = Array.from({ length: 12 }, (_, i) =>
    record(accountId, START + i * 1000, {
      action: actions[i % 3]!,
      actor: { kind: "user", id: actors[i % 2]! },
    }),
  );
  for (const each of all) await send("variables", each);
  await log(accountId, 13);
  const accounts = await reader(accountId);
  for (const action of [undefined, ...actions])
    for (const actor of [undefined, ...actors])
      for (const since of [undefined, START, START + 4000, START + 4001, START + 11_000]) {
        const { data } = await accounts.listAuditEvents({
          accountId,
          limit: 100,
          ...(action && { action }),
          ...(actor && { actor }),
          ...(since !== undefined && { since: timestampFromMs(since) }),
        });
        const expected = all.filter(
          (each) =>
            (!action || each.action === action) &&
            (!actor || each.actor?.id === actor) &&
            timestampMs(each.at as Parameters<typeof timestampMs>[0]) >= (since ?? 0),
        );
        const found = data.filter((each) => each.action !== "account.create");
        expect(found.map((each) => each.id)).toEqual(expected.map((each) => each.id).reverse());
      }
  expect((await accounts.listAuditEvents({ accountId, action: "variable" })).data).toEqual([]);
});

/** A record of a change to variables of a scope. */
const ofVariable = (accountId: string, at: number, action: string, target: string, metadata: object) =>
  record(accountId, START + at, { action: `variable.${action}`, target, metadata: { ...metadata } });

test("a target has its own records, and a variable those of its scope, also where a batch changed it", async () => {
  const accountId = await it.account();
  const svc = { scope: "service", scopeId: "svc_1" };
  const other = { scope: "service", scopeId: "svc_2" };
  const sent = [
    ofVariable(accountId, 1, "create", "KEY", svc),
    ofVariable(accountId, 2, "create", "KEY", other),
    ofVariable(accountId, 3, "batch", "svc_1", { ...svc, set: "A,KEY,KEY_2", unset: "" }),
    ofVariable(accountId, 4, "batch", "svc_1", { ...svc, set: "KEY_2,A", unset: "B" }),
    ofVariable(accountId, 5, "reveal", "KEY", svc),
    ofVariable(accountId, 6, "batch", "svc_1", { ...svc, set: "", unset: "KEY,A" }),
    record(accountId, START + 7, { action: "service.update", target: "KEY", metadata: { scopeId: "svc_1" } }),
    record(accountId, START + 8, { target: "é".repeat(5_000), metadata: svc }),
  ];
  for (const each of sent) await send("variables", each);
  await log(accountId, 9);
  const accounts = await reader(accountId);
  const found = async (target: string, more: object = {}) => {
    const { data } = await accounts.listAuditEvents({ accountId, target, ...more });
    return data.filter(({ action }) => action !== "account.create").map(({ at }) => timestampMs(at!) - START);
  };
  expect(await found("svc_1/KEY")).toEqual([6, 5, 3, 1]);
  expect(await found("svc_1/KEY", { action: "variable.batch" })).toEqual([6, 3]);
  expect(await found("svc_1/KEY", { since: timestampFromMs(START + 5) })).toEqual([6, 5]);
  expect(await found("svc_2/KEY")).toEqual([2]);
  expect(await found("svc_1/KEY_2")).toEqual([4, 3]);
  expect(await found("svc_1/B")).toEqual([4]);
  expect(await found("KEY")).toEqual([7, 5, 2, 1]);
  expect(await found("svc_1")).toEqual([6, 4, 3]);
  for (const none of ["svc_1/", "svc_1/K%", "svc_3/KEY", "' or true --"])
    expect(await found(none)).toEqual([]);
  expect(await found("")).toHaveLength(8);

  const first = await accounts.listAuditEvents({ accountId, target: "svc_1/KEY", limit: 3 });
  const next = { accountId, limit: 3, cursor: first.page!.nextCursor };
  const rest = await accounts.listAuditEvents({ ...next, target: "svc_1/KEY" });
  expect(rest.data.map(({ id }) => id)).toEqual([sent[0]!.id]);
  expect(await refused(accounts.listAuditEvents(next))).toBe("400 malformed_request");
  const stranger = await reader(await it.account());
  expect(await refused(stranger.listAuditEvents({ accountId, target: "svc_1/KEY" }))).toBe("403 forbidden");
});

test("of ten thousand records of an account, only those of the target are read", async () => {
  const accountId = await it.account();
  const insert = `insert into audit_events (id, account_id, action, actor_kind, actor_id, target, metadata, request_id, ip, at)
    select 'aud_many_' || lpad(n::text, 6, '0'), $1, 'variable.update', 'user', 'usr_1', 'KEY',
      jsonb_build_object('scopeId', case when n % 2500 = 0 then 'svc_few' else 'svc_many' end), '', '', now()
    from generate_series(1, 10000) n`;
  await it.pool.query(insert, [accountId]);
  await it.pool.query("analyze audit_events, audit_event_targets");
  const { db, plans } = explaining(it.pool);
  const none = { before: undefined, action: undefined, actor: undefined, from: undefined, since: undefined };
  for (const target of ["svc_few/KEY", "svc_many/KEY"])
    await listAuditEvents(db, { ...none, accountId, target, limit: 3 });
  for (const plan of plans) {
    // There are four of the rarer one, which may be sorted.
    expect([plan, mostRows(plan) <= 4]).toEqual([plan, true]);
    expect(plan).not.toMatch(/Removed by|Seq Scan/);
  }
  expect(plans).toHaveLength(2);
});

test("a time before 1970 or far ahead is a filter like any other", async () => {
  const accountId = await it.account();
  await log(accountId, 1);
  const accounts = await reader(accountId);
  const count = async (since: number) =>
    (await accounts.listAuditEvents({ accountId, since: timestampFromMs(since) })).data.length;
  expect(await count(Date.parse("0001-01-01T00:00:00Z"))).toBe(1);
  expect(await count(Date.parse("9999-12-31T23:59:59Z"))).toBe(0);
});

test("another account's log and limits out of range are refused", async () => {
  const accountId = await it.account();
  const accounts = await reader(accountId);
  expect(await refused(accounts.listAuditEvents({ accountId: it.accountId }))).toBe("403 forbidden");
  for (const limit of [0, 101, -1])
    expect(await refused(accounts.listAuditEvents({ accountId, limit }))).toBe(
      "422 validation_failed out_of_range",
    );
  const other = await reader(it.accountId);
  await log(it.accountId, 1);
  await send("variables", record(it.accountId, START));
  await log(it.accountId, 2);
  const first = { accountId: it.accountId, limit: 1 };
  const { page } = await other.listAuditEvents(first);
  const cursor = page!.nextCursor;
  const twisted = [
    `${cursor}=`,
    `${cursor} `,
    `.${cursor}`,
    `${cursor}A`,
    cursor.slice(0, -1),
    cursor.toLowerCase(),
  ];
  for (const changed of [
    ...twisted.map((text) => ({ cursor: text })),
    { cursor, action: "variable.reveal" },
    { cursor, actor: it.ownerId },
    { cursor, since: timestampFromMs(START) },
  ])
    expect(await refused(other.listAuditEvents({ ...first, ...changed }))).toBe("400 malformed_request");
  expect((await other.listAuditEvents({ ...first, cursor })).data).toHaveLength(1);
  expect(await refused(accounts.listAuditEvents({ accountId, cursor: page!.nextCursor }))).toBe(
    "400 malformed_request",
  );
});

test("every change of an account and its members leaves one record that says who did what from where", async () => {
  const accountId = await it.account();
  const { accounts, invitations, caller } = await it.as(it.ownerToken, accountId, "198.51.100.9");
  const { userId, email, token } = await it.member("reader");
  const mine = (await it.as(token)).invitations;
  await accounts.updateAccount({ accountId, displayName: "Renamed" });
  const invite = (to: string) => invitations.inviteMember({ accountId, email: to, role: "reader" });
  const [withdrawn, declined] = [await invite("withdrawn@example.com"), await invite(email)];
  await invitations.resendInvitation({ accountId, invitationId: withdrawn.id });
  await invitations.withdrawInvitation({ accountId, invitationId: withdrawn.id });
  await mine.declineInvitation({ invitationId: declined.id });
  const accepted = await invite(email);
  await mine.acceptInvitation({ invitationId: accepted.id });
  await accounts.updateMember({ accountId, userId, role: "editor" });
  await accounts.updateMember({ accountId, userId, role: "editor" });
  await accounts.removeMember({ accountId, userId });
  await refused(accounts.removeMember({ accountId, userId }));
  await refused(accounts.removeMember({ accountId, userId: it.ownerId }));
  const bound = await (await it.as(it.ownerToken, accountId)).sessions.createToken({ name: "ci", accountId });
  await (await it.as(it.ownerToken)).sessions.revokeToken({ tokenId: bound.id });
  const data = await log(accountId, 13);
  await settled();
  const seen = (await log(accountId, 13)).map(({ action, target, metadata }) => [action, target, metadata]);
  expect(seen).toHaveLength(13);
  const toReader = { role: "reader", email };
  expect(seen).toEqual(
    expect.arrayContaining([
      ["account.create", accountId, expect.objectContaining({ handle: expect.any(String) })],
      ["account.update", accountId, { displayName: "Renamed" }],
      ["invitation.create", withdrawn.id, { role: "reader", email: "withdrawn@example.com" }],
      ["invitation.resend", withdrawn.id, { email: "withdrawn@example.com" }],
      ["invitation.withdraw", withdrawn.id, { role: "reader", email: "withdrawn@example.com" }],
      ["invitation.create", declined.id, toReader],
      ["invitation.decline", declined.id, toReader],
      ["invitation.create", accepted.id, toReader],
      ["invitation.accept", accepted.id, toReader],
      ["member.update", userId, { role: "editor", previousRole: "reader" }],
      ["member.remove", userId, { role: "editor" }],
      ["token.created", bound.id, { name: "ci" }],
      ["token.revoked", bound.id, { kind: "token" }],
    ]),
  );
  const by = (action: string) => data.find((each) => each.action === action)!;
  const invited = by("invitation.create");
  expect(invited.actor).toMatchObject({ kind: "user", id: it.ownerId, tokenId: caller.tokenId });
  expect(invited.ip).toBe("198.51.100.9");
  expect(invited.requestId).not.toBe("");
  expect(by("invitation.accept").actor).toMatchObject({ kind: "user", id: userId });
});

test("sign-ins and failed sign-ins are kept under no account, and never hold what was typed", async () => {
  const { email, userId } = await it.member("reader");
  await refused(it.anonymous("198.51.100.50").signIn({ email, password: "typed-wrong-password" }));
  await refused(it.anonymous("198.51.100.51").signIn({ email: "my-secret-password", password: "x" }));
  await it.anonymous("198.51.100.52").signIn({ email: "owner@example.com", password: OWNER_PASSWORD });
  const found = async (ip: string) => {
    const text = "select account_id, action, actor_kind, actor_id, target from audit_events where ip = $1";
    return eventually(`the record from ${ip}`, async () => (await it.pool.query(text, [ip])).rows[0]);
  };
  const failed = { account_id: "", action: "auth.sign_in_failed", actor_kind: "anonymous", actor_id: "" };
  expect(await found("198.51.100.50")).toEqual({ ...failed, target: userId });
  expect(await found("198.51.100.51")).toEqual({ ...failed, target: "" });
  const actor = { actor_kind: "user", actor_id: it.ownerId };
  expect(await found("198.51.100.52")).toEqual({
    account_id: "",
    action: "auth.sign_in",
    ...actor,
    target: it.ownerId,
  });
  const all = await it.pool.query("select e::text as line from audit_events e");
  const text = all.rows.map((row) => row.line).join("\n");
  expect(text).not.toContain("typed-wrong-password");
  expect(text).not.toContain("my-secret-password");
});
