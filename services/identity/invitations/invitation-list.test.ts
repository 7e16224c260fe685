import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RoleName } from "../../kit/rpc/caller-token.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { windowKey } from "../attempts/keys.ts";
import { sweep } from "../sweep.ts";
import { startIdentity, type TestIdentity } from "../testing.ts";

const DAY = 24 * 3600_000;
let it: TestIdentity;

beforeAll(async () => {
  it = await startIdentity();
});
afterAll(() => it.stop());

const someEmail = () => `${randomBytes(6).toString("hex")}@example.com`;

/** The invitations of an account; by default its owner is the first owner, an operator. */
async function owned(accountId: string, token = it.ownerToken) {
  const { invitations } = await it.as(token, accountId);
  const invite = (email: string, role: RoleName = "reader") =>
    invitations.inviteMember({ accountId, email, role });
  return { ...invitations, invite };
}

/** An account whose owner is no operator. */
async function foreign() {
  const person = await it.member("reader");
  const { accounts } = await it.as(person.token);
  const { id } = await accounts.createAccount({ handle: `h${randomBytes(5).toString("hex")}` });
  return { accountId: id, userId: person.userId, ...(await owned(id, person.token)) };
}

describe("the list of an account", () => {
  test("shows its invitations newest first, page by page, and never a link", async () => {
    const accountId = await it.account();
    const { invite, listInvitations, getInvitation } = await owned(accountId);
    const made: string[] = [];
    for (let i = 0; i < 5; i++) made.push((await invite(someEmail())).id);
    await (await owned(it.accountId)).invite(someEmail());
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const { data, page } = await listInvitations({ accountId, limit: 2, cursor });
      for (const { id, status, link } of data) {
        expect([status, link]).toEqual(["invited", undefined]);
        seen.push(id);
      }
      cursor = page!.nextCursor;
      expect(page!.hasMore).toBe(cursor !== "");
    } while (cursor);
    expect(seen).toEqual(made.reverse());
    expect(await getInvitation({ accountId, invitationId: seen[0]! })).toMatchObject({ id: seen[0] });
  });

  test("does not reach the invitations of another", async () => {
    const { id } = await (await owned(await it.account())).invite(someEmail());
    const invitation = { accountId: it.accountId, invitationId: id };
    const { getInvitation, resendInvitation, withdrawInvitation } = await owned(it.accountId);
    for (const call of [getInvitation, resendInvitation, withdrawInvitation])
      expect(await refused(call(invitation))).toBe("404 not_found");
  });

  test("takes 100 open invitations", async () => {
    const accountId = await it.account();
    const { invite, listInvitations, withdrawInvitation } = await owned(accountId);
    await it.pool.query(
      `insert into invitations (id, account_id, email, role, invited_by, nonce, token_hash, created_at, expires_at)
       select 'inv_' || n, $1, n || '@example.com', 'reader', $2, '', sha256(($1 || n)::bytea), $3, $4
       from generate_series(1, 100) n`,
      [accountId, it.ownerId, new Date(it.clock.ms), new Date(it.clock.ms + DAY)],
    );
    const full = await refusal(invite(someEmail()));
    expect([full.status, full.code, full.context]).toEqual([403, "quota_exceeded", { limit: 100 }]);
    const { data } = await listInvitations({ accountId, limit: 1 });
    await withdrawInvitation({ accountId, invitationId: data[0]!.id });
    await invite(someEmail());
  });

  test("grows by 200 invitations of one inviter a day, over all accounts", async () => {
    const inviter = await foreign();
    const { id } = await inviter.invite(someEmail());
    await it.pool.query(
      "update sign_in_attempts set failed_at = array_fill($2::timestamptz, array[199]) where key = $1",
      [windowKey("inviter", inviter.userId), new Date(it.clock.ms)],
    );
    await inviter.invite(someEmail());
    const late = await refusal(inviter.invite(someEmail()));
    expect([late.status, late.code]).toEqual([429, "rate_limited"]);
    const again = { accountId: inviter.accountId, invitationId: id };
    expect(await refused(inviter.resendInvitation(again))).toBe("429 rate_limited");
    await (await owned(await it.account())).invite(someEmail());
  });

  test("is cleared of invitations that expired 30 days ago", async () => {
    const accountId = await it.account();
    const { invite, listInvitations } = await owned(accountId);
    it.clock.ms += 2 * DAY;
    await invite(someEmail());
    it.clock.ms += 36 * DAY;
    await sweep(it.pool, new Date(it.clock.ms));
    expect((await listInvitations({ accountId })).data).toHaveLength(1);
    it.clock.ms += 2 * DAY;
    await sweep(it.pool, new Date(it.clock.ms));
    expect((await listInvitations({ accountId })).data).toEqual([]);
  });
});
