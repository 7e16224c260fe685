import { randomBytes } from "node:crypto";
import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SuspensionChangedSchema, TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import { newId } from "../../kit/ids.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startIdentity, type TestIdentity, tokenIn } from "../testing.ts";

const QUOTA = "403 quota_exceeded";
const PASSWORD = "a-long-first-password";

let it: TestIdentity;
beforeAll(async () => {
  it = await startIdentity({ DEFAULT_TIER: "free" });
  await changeTier(it.accountId, "enterprise", 1n);
});
afterAll(() => it?.stop());

/** Has billing report a plan. Returns when the report was handled. */
async function changeTier(accountId: string, tier: string, revision: bigint): Promise<void> {
  // An event that never was changes nothing, but events are handled in order.
  const marker = newId("acc");
  await it.pool.query("insert into accounts (id, handle, display_name) values ($1, lower($1), '')", [marker]);
  await emit(it.pool, TierChangedSchema, accountId, { accountId, tier, revision });
  await emit(it.pool, TierChangedSchema, marker, { accountId: marker, tier, revision: 1n });
  await eventually("the report was handled", async () => {
    const { rows } = await it.pool.query("select from accounts where id = $1 and tier is not null", [marker]);
    return rows.length === 1;
  });
}

const someEmail = () => `${randomBytes(6).toString("hex")}@example.com`;

/** An account of the first owner's, on the plan if one is given. */
async function account(tier?: string) {
  const accountId = await it.account();
  if (tier) await changeTier(accountId, tier, 1n);
  const { accounts, invitations } = await it.as(it.ownerToken, accountId);
  const invite = (email: string) => invitations.inviteMember({ accountId, email, role: "editor" });
  const members = async () => (await accounts.listMembers({ accountId })).data.length;
  return { accountId, accounts, invite, members };
}

const outcome = (call: Promise<unknown>) =>
  call.then(
    () => "accepted",
    () => refused(call),
  );

describe("on the free plan", () => {
  test("an account has one member, and the refusal says how to get more", async () => {
    const { accountId, invite, members } = await account();
    const second = await refusal(invite(someEmail()));
    expect(second).toMatchObject({ status: 403, code: "quota_exceeded", context: { limit: 1 } });
    expect(second.message).toContain("members are limited to 1");
    expect(second.message).toContain(`POST /accounts/${accountId}/subscription`);
    expect(await members()).toBe(1);
  });

  test("who was invited on a larger plan joins neither by accepting nor by the link, until it is larger again", async () => {
    const { accountId, invite, members } = await account("pro");
    const known = await it.member("reader");
    const invited = await invite(known.email);
    const { link } = await invite(someEmail());
    await changeTier(accountId, "free", 2n);

    const { invitations } = await it.as(known.token);
    const accept = () => invitations.acceptInvitation({ invitationId: invited.id });
    const join = () =>
      it.visitor().invitations.joinByInvitation({ token: tokenIn(link), password: PASSWORD });
    expect(await refused(accept())).toBe(QUOTA);
    expect(await refused(join())).toBe(QUOTA);
    expect(await members()).toBe(1);

    await changeTier(accountId, "team", 3n);
    await accept();
    await join();
    expect(await members()).toBe(3);
  });

  test("members above the limit of a smaller plan stay, and those who leave are not replaced before there is room", async () => {
    const { accountId, accounts, invite, members } = await account("pro");
    const { userId } = await it.member("editor", accountId);
    const waiting = await it.member("reader");
    const { id: invitationId } = await invite(waiting.email);
    await changeTier(accountId, "free", 2n);
    expect(await members()).toBe(2);
    expect((await accounts.updateMember({ accountId, userId, role: "owner" })).role).toBe("owner");
    await accounts.removeMember({ accountId, userId });
    expect(await members()).toBe(1);
    expect(await refused(invite(someEmail()))).toBe(QUOTA);
    const { invitations } = await it.as(waiting.token);
    expect(await refused(invitations.acceptInvitation({ invitationId }))).toBe(QUOTA);
  });

  test("declining needs no free seat", async () => {
    const { accountId, invite } = await account("pro");
    const known = await it.member("reader");
    const { id: invitationId } = await invite(known.email);
    await changeTier(accountId, "free", 2n);
    await (await it.as(known.token)).invitations.declineInvitation({ invitationId });
  });
});

test("of users who join at once while one seat is free, one does", async () => {
  const { accountId, invite } = await account("pro");
  const people = await Promise.all([1, 2, 3].map(() => it.member("reader")));
  const accept = await Promise.all(
    people.map(async ({ email, token }) => {
      const { id: invitationId } = await invite(email);
      const { invitations } = await it.as(token);
      return () => invitations.acceptInvitation({ invitationId });
    }),
  );
  await it.pool.query("delete from memberships where account_id = $1", [accountId]);
  await changeTier(accountId, "free", 2n);
  const held = await holdCommits(it, "insert", "memberships", `new.account_id = '${accountId}'`);
  const outcomes = accept.map((call) => outcome(call()));
  await eventually("all wait", async () => {
    const { rows } = await it.pool.query<{ n: number }>(
      `select count(*) as n from pg_stat_activity
       where datname = current_database() and application_name = 'identity' and wait_event_type = 'Lock'`,
    );
    return rows[0]!.n >= 3;
  });
  await held.release("kept");
  expect((await Promise.all(outcomes)).sort()).toEqual([QUOTA, QUOTA, "accepted"]);
});

test("an invitation that is accepted while its e-mail is invited again does neither refuse for being busy", async () => {
  const { accountId, accounts, invite, members } = await account("pro");
  const { email, token, userId } = await it.member("reader");
  const { invitations } = await it.as(token);
  for (let round = 0; round < 20; round++) {
    const { id: invitationId } = await invite(email);
    const again = outcome(invite(email));
    await invitations.acceptInvitation({ invitationId });
    expect(await again).toMatch(/^409 already_(invited|member)$/);
    expect(await members()).toBe(2);
    await accounts.removeMember({ accountId, userId });
  }
});

test("an older report of billing, or the same again, never overtakes a newer one", async () => {
  const { accountId, invite } = await account("pro");
  for (const revision of [0n, 1n]) await changeTier(accountId, "free", revision);
  await invite(someEmail());
  await changeTier(accountId, "free", 3n);
  await changeTier(accountId, "pro", 2n);
  expect(await refused(invite(someEmail()))).toBe(QUOTA);
});

test.each([
  ["enterprise is the plan unless another is set", {}],
  ["the free plan without quotas has no limit", { DEFAULT_TIER: "free", PLAN_QUOTAS: "off" }],
])("%s", async (_, settings) => {
  const other = await startIdentity(settings);
  await other.member("reader");
  await other.member("reader");
  await other.stop();
});

test("an account shows until when a grace period lasts and that it is suspended, by the newest report", async () => {
  const { accountId, accounts } = await account("free");
  const until = timestampFromMs(Date.UTC(2027, 0, 8));
  const report = async (revision: bigint, reason: string, graceUntil?: typeof until) => {
    const event = { accountId, reason, revision, ...(graceUntil && { graceUntil }) };
    await emit(it.pool, SuspensionChangedSchema, accountId, event);
    await changeTier(accountId, "free", 1n);
    const { plan } = await accounts.getAccount({ accountId });
    return [plan?.suspended, plan?.graceUntil && timestampDate(plan.graceUntil).toISOString()];
  };
  expect(await report(2n, "", until)).toEqual([undefined, "2027-01-08T00:00:00.000Z"]);
  expect(await report(1n, "free_plan")).toEqual([undefined, "2027-01-08T00:00:00.000Z"]);
  expect(await report(3n, "free_plan", until)).toEqual(["free_plan", "2027-01-08T00:00:00.000Z"]);
  expect(await report(4n, "")).toEqual([undefined, undefined]);
});

test("a plan that only a newer version knows is recorded for it", async () => {
  const { accountId } = await account("pro");
  await changeTier(accountId, "business", 2n);
  const { rows } = await it.pool.query("select tier from accounts where id = $1", [accountId]);
  expect(rows).toEqual([{ tier: "business" }]);
  expect((await (await it.as(it.ownerToken, accountId)).accounts.getAccount({ accountId })).plan?.tier).toBe(
    "free",
  );
});
