import { afterAll, beforeAll, expect, test } from "vitest";
import { sweepClients } from "../../../../services/identity/oauth/registration/sweep-clients.ts";
import { eventually } from "../../../../services/kit/testing/testing.ts";
import { refusal } from "../../../support/door.ts";
import { type OauthPlatform, oauthPlatform } from "../../../support/oauth/platform.ts";

let it: OauthPlatform;
beforeAll(async () => {
  it = await oauthPlatform();
});
afterAll(() => it?.stop());

const write = async (token: string) =>
  (await it.call("PATCH", it.A, { displayName: "new" }, { token })).status;
const untilUsed = (token: string, status: number) =>
  eventually(`the machine is answered ${status}`, async () => (await it.use(token)) === status);

/** The audit records of one grant's application, oldest first: what, who, and why. */
async function recordsOf(clientId: string) {
  const { rows } = await it.pool.query<{ action: string; actor_kind: string; actor_id: string }>(
    "select * from audit_events where metadata->>'clientId' = $1 order by id",
    [clientId],
  );
  return rows;
}

test("consent, denial and revocation are recorded with who did it", async () => {
  const user = await it.member("editor");
  const app = await it.letIn({ ...user, role: "reader" });
  const denied = await it.begin(app.clientId);
  const consentChallenge = await it.signIn(denied, user);
  await it.must("POST", "/oauth/consent/reject", { consentChallenge }, "");
  await it.must("DELETE", `/me/mcp-grants/${app.clientId}`, undefined, user.token);
  const actor = { kind: "user", id: user.userId };
  const byActions = await eventually("they are in the audit log", async () => {
    const records = await recordsOf(app.clientId);
    return records.length >= 3 && records;
  });
  expect(byActions.map(({ action }) => action)).toEqual([
    "oauth.consent.granted",
    "oauth.consent.denied",
    "oauth.grant.revoked",
  ]);
  const find = async (action: string) =>
    (await it.audited(action)).find(({ metadata }) => metadata.clientId === app.clientId);
  expect(await find("oauth.consent.granted")).toMatchObject({ actor, metadata: { role: "reader" } });
  expect(await find("oauth.grant.revoked")).toMatchObject({ actor, metadata: { reason: "user" } });
});

test("a machine does what the lower of its grant and its user's present role permits, at every request", async () => {
  const user = await it.member("editor");
  const owner = await it.letIn({ role: "editor" });
  const editor = await it.letIn({ ...user, role: "editor" });
  const reader = await it.letIn({ ...user, role: "reader" });
  const member = `${it.A}/members/${user.userId}`;
  const makes = async (token: string) =>
    (await it.call("POST", `${it.A}/projects`, { name: "p" }, { token })).status === 403;
  expect(await write(owner.token)).toBe(403);
  expect([await it.use(editor.token), await it.use(reader.token)]).toEqual([200, 200]);
  expect(await makes(reader.token)).toBe(true);
  const listed = async () =>
    (
      await it.must<{ clientId: string; role: string }[]>("GET", "/me/mcp-grants", undefined, user.token)
    ).find(({ clientId }) => clientId === editor.clientId)?.role;
  const roleIn = (token: string) => JSON.parse(atob(token.split(".")[1]!)).role as string;
  expect([await listed(), roleIn(editor.token)]).toEqual(["editor", "editor"]);
  await it.must("PATCH", member, { role: "reader" });
  await eventually("the editor's machine only reads", () => makes(editor.token));
  expect(await it.use(editor.token)).toBe(200);
  const lowered = await it.refresh(editor.clientId, editor.refreshToken);
  expect([await listed(), roleIn(String(lowered.body.access_token))]).toEqual(["reader", "reader"]);
  await it.must("PATCH", member, { role: "owner" });
  const raised = await it.refresh(editor.clientId, String(lowered.body.refresh_token));
  expect([await listed(), roleIn(String(raised.body.access_token))]).toEqual(["editor", "editor"]);
  await eventually("it may again what it was granted", async () => !(await makes(editor.token)));
  expect(await makes(reader.token)).toBe(true);
  expect(await write(editor.token)).toBe(403);
});

test("a machine reaches no other account of its user's", async () => {
  const { token } = await it.letIn();
  const other = await it.must<{ id: string }>("POST", "/accounts", { handle: `o${Date.now().toString(36)}` });
  const answer = await it.call("GET", `/accounts/${other.id}`, undefined, { token });
  expect(refusal(answer)).toBe("403 forbidden");
});

test("of what a removed member granted nothing works, also when he is a member again", async () => {
  const user = await it.member("editor");
  const app = await it.letIn({ ...user, role: "editor" });
  expect(await it.use(app.token)).toBe(200);
  await it.must("DELETE", `${it.A}/members/${user.userId}`);
  await untilUsed(app.token, 403);
  expect((await it.refresh(app.clientId, app.refreshToken)).body.error).toBe("invalid_grant");
  expect(await it.grants(user.token)).toEqual([]);
  const { email } = user;
  await it.must("POST", `${it.A}/members`, { email, role: "editor" });
  const { data } = await it.must<{ data: { id: string }[] }>("GET", "/me/invitations", undefined, user.token);
  await it.must("POST", `/me/invitations/${data[0]!.id}/accept`, {}, user.token);
  expect(await it.use(user.token)).toBe(200);
  expect(await it.use(app.token)).toBe(403);
  expect((await it.refresh(app.clientId, app.refreshToken)).body.error).toBe("invalid_grant");
  const anew = await it.letIn({ ...user, clientId: app.clientId, role: "reader" });
  expect(await it.use(anew.token)).toBe(200);
});

test("of what a disabled user granted nothing works", async () => {
  const user = await it.member("editor");
  const app = await it.letIn({ ...user, role: "editor" });
  await it.pool.query("update users set disabled_at = now() where id = $1", [user.userId]);
  await untilUsed(app.token, 401);
  expect((await it.refresh(app.clientId, app.refreshToken)).body.error).toBe("invalid_grant");
});

test("revoking an application ends all of its grants in all accounts, and nothing else", async () => {
  const user = await it.member("editor");
  const own = await it.must<{ id: string }>(
    "POST",
    "/accounts",
    { handle: `r${Date.now().toString(36)}` },
    user.token,
  );
  const clientId = await it.register();
  const here = await it.letIn({ ...user, clientId, role: "reader" });
  const twice = await it.letIn({ ...user, clientId, role: "editor" });
  const there = await it.letIn({ ...user, clientId, accountId: own.id });
  const other = await it.letIn(user);
  const ofOthers = await it.letIn({ clientId });
  expect(await it.grants(user.token)).toMatchObject([
    { clientId: other.clientId },
    { clientId, accountId: own.id },
    { clientId, accountId: it.accountId, role: "editor" },
  ]);
  for (const _ of [1, 2])
    expect((await it.call("DELETE", `/me/mcp-grants/${clientId}`, undefined, user)).status).toBe(204);
  for (const { token, refreshToken } of [here, twice, there]) {
    await eventually("it is refused", async () => (await it.use(token, own.id)) === 401);
    expect((await it.refresh(clientId, refreshToken)).body.error).toBe("invalid_grant");
  }
  expect(await it.grants(user.token)).toMatchObject([{ clientId: other.clientId }]);
  expect([await it.use(other.token), await it.use(ofOthers.token)]).toEqual([200, 200]);
  const left = await it.pool.query(
    "select from oauth_artifacts a join oauth_grants g on g.id = a.grant_id where g.user_id = $1 and g.client_id = $2",
    [user.userId, clientId],
  );
  expect(left.rowCount).toBe(0);
});

test("a grant ends by itself after a year", async () => {
  const user = await it.member("editor");
  await it.letIn({ ...user, role: "reader" });
  expect(await it.grants(user.token)).toHaveLength(1);
  it.clock.aheadMs = 365 * 24 * 3600 * 1000 + 60_000;
  const { rows } = await it.pool.query(
    "select from oauth_grants where user_id = $1 and expires_at > now() + interval '364 days'",
    [user.userId],
  );
  it.clock.aheadMs = 0;
  expect(rows).toHaveLength(1);
  await it.pool.query("update oauth_grants set expires_at = now() where user_id = $1", [user.userId]);
  expect(await it.grants(user.token)).toEqual([]);
});

test("of a hundred and more grants to one application the newest hundred are kept, and listed as one", async () => {
  const user = await it.member("editor");
  const app = await it.letIn({ ...user, role: "reader" });
  // All of them an hour ago, and so before the one that follows.
  const hourAgo = "update oauth_grants set granted_at = granted_at - interval '1 hour' where client_id = $1";
  await it.pool.query(hourAgo, [app.clientId]);
  await it.pool.query(
    `insert into oauth_grants (id, user_id, client_id, client_name, account_id, membership_id, role, granted_at, expires_at)
     select id || n, user_id, client_id, client_name, account_id, membership_id, role,
       granted_at + n * interval '1 ms', expires_at from oauth_grants, generate_series(1, 1000) n where client_id = $1`,
    [app.clientId],
  );
  expect(await it.grants(user.token)).toHaveLength(1);
  const newest = await it.letIn({ ...user, clientId: app.clientId, role: "editor" });
  expect(await it.grants(user.token)).toMatchObject([{ role: "editor" }]);
  const live = "select from oauth_grants where client_id = $1 and revoked_at is null";
  expect((await it.pool.query(live, [app.clientId])).rowCount).toBe(100);
  await untilUsed(app.token, 401);
  expect(await it.use(newest.token)).toBe(200);
});

test("a grant stays listed and can be revoked after ten thousand registrations pushed its application out", async () => {
  const user = await it.member("editor");
  const app = await it.letIn({ ...user, role: "reader" });
  // Let in, but not yet noted so: as where the consent comes while registrations push the application out.
  await it.pool.query(
    "update oauth_clients set authorized_at = null, registered_at = registered_at - interval '1 hour' where id = $1",
    [app.clientId],
  );
  await it.pool.query(
    `insert into oauth_clients (id, metadata, registered_at, last_used_at)
     select 'flood-' || n, '{"client_id": "x"}', now(), now() from generate_series(1, 10000) n`,
  );
  await it.register();
  await sweepClients({ pool: it.pool, provider: { deleteClient: async () => {} } }, new Date());
  expect((await it.refresh(app.clientId, app.refreshToken)).body.error).toBe("invalid_client");
  expect(await it.grants(user.token)).toMatchObject([
    { clientId: app.clientId, clientName: "An app", accountId: it.accountId, role: "reader" },
  ]);
  expect(await it.use(app.token)).toBe(200);
  await it.must("DELETE", `/me/mcp-grants/${app.clientId}`, undefined, user.token);
  await untilUsed(app.token, 401);
  expect(await it.grants(user.token)).toEqual([]);
});
