import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { holdCommits } from "../../../../services/kit/testing/hold-commits.ts";
import { eventually } from "../../../../services/kit/testing/testing.ts";
import { type OauthPlatform, oauthPlatform } from "../../../support/oauth/platform.ts";

let it: OauthPlatform;
beforeAll(async () => {
  it = await oauthPlatform();
});
beforeEach(() => {
  it.clock.aheadMs = 0;
});
afterAll(() => it?.stop());

/** Expects that nothing of a grant works any more, without a word from its user. */
async function expectOver(app: { clientId: string; token: string; refreshToken: string }) {
  await eventually("the token is refused", async () => (await it.use(app.token)) === 401);
  const { status, body } = await it.refresh(app.clientId, app.refreshToken);
  expect([status, body.error]).toEqual([400, "invalid_grant"]);
  const listed = await it.grants();
  expect(listed.filter(({ clientId }) => clientId === app.clientId)).toEqual([]);
}

/** The last record of a grant that ended. */
async function lastRevoked(clientId: string) {
  return eventually("it is in the audit log", async () =>
    (await it.audited("oauth.grant.revoked")).find(({ metadata }) => metadata.clientId === clientId),
  );
}

test("a code that is used again ends everything that came of it", async () => {
  const app = await it.letIn();
  expect(await it.use(app.token)).toBe(200);
  const { status, body } = await it.redeem(app.begun, app.back);
  expect([status, body.error]).toEqual([400, "invalid_grant"]);
  await expectOver(app);
  expect(await lastRevoked(app.clientId)).toMatchObject({
    actor: { kind: "service", id: "identity" },
    metadata: { reason: "reuse" },
  });
});

test("a code that is used twice at once gives at most one set of tokens, which do not last", async () => {
  const clientId = await it.register();
  const begun = await it.begin(clientId);
  const back = await it.allow(begun);
  // The first use is not committed yet when the second finds the code unused.
  const held = await holdCommits(it, "update", "oauth_artifacts", "new.consumed_at is not null");
  const first = it.redeem(begun, back);
  await held.reached();
  const second = it.redeem(begun, back);
  await eventually("the second waits for the first", async () => {
    const waiting =
      "select from pg_stat_activity where wait_event = 'transactionid' and datname = current_database()";
    return ((await it.pool.query(waiting)).rowCount ?? 0) > 0;
  });
  await held.release("kept");
  const issued = (await Promise.all([first, second])).filter(({ status }) => status === 200);
  expect(issued.length).toBeLessThanOrEqual(1);
  for (const { body } of issued)
    await expectOver({ clientId, token: body.access_token!, refreshToken: body.refresh_token! });
  expect(await it.grants()).not.toContainEqual(expect.objectContaining({ clientId }));
});

test("a code that another application sends changes nothing", async () => {
  const begun = await it.begin(await it.register());
  const back = await it.allow(begun);
  const thief = { ...begun, clientId: await it.register() };
  expect((await it.redeem(thief, back)).body.error).toBe("invalid_grant");
  const { status, body } = await it.redeem(begun, back);
  expect(status).toBe(200);
  expect((await it.redeem(thief, back)).body.error).toBe("invalid_grant");
  expect(await it.use(body.access_token!)).toBe(200);
});

test("a code lasts 60 s", async () => {
  const begun = await it.begin(await it.register());
  const back = await it.allow(begun);
  it.clock.aheadMs = 61_000;
  expect((await it.redeem(begun, back)).body.error).toBe("invalid_grant");
});

test("processes of an application that refresh at once all get tokens, and go on with them", async () => {
  const { clientId, refreshToken } = await it.letIn();
  const answers = await Promise.all([1, 2, 3, 4].map(() => it.refresh(clientId, refreshToken)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  it.clock.aheadMs = 29_000;
  expect((await it.refresh(clientId, refreshToken)).status).toBe(200);
  for (const { body } of answers) {
    expect(await it.use(body.access_token!)).toBe(200);
    expect((await it.refresh(clientId, body.refresh_token!)).status).toBe(200);
  }
});

test("a refresh token that is used after its 30 s of grace ends everything that came of it", async () => {
  const app = await it.letIn();
  const { body } = await it.refresh(app.clientId, app.refreshToken);
  it.clock.aheadMs = 31_000;
  expect((await it.refresh(app.clientId, app.refreshToken)).body.error).toBe("invalid_grant");
  await expectOver({ ...app, refreshToken: body.refresh_token! });
  expect(await it.use(body.access_token!)).toBe(401);
  expect(await lastRevoked(app.clientId)).toMatchObject({ metadata: { reason: "reuse" } });
});

test("an application that revokes its refresh token loses its access at once", async () => {
  const app = await it.letIn();
  const { clientId, refreshToken } = app;
  const answer = await it.post("/oauth2/revoke", { client_id: clientId, token: refreshToken });
  expect(answer.status).toBe(200);
  await expectOver(app);
  const { userId, grantId } = { ...(await userOf(clientId)) };
  expect(await lastRevoked(clientId)).toMatchObject({
    actor: { kind: "machine", id: userId, tokenId: grantId },
    target: grantId,
    ip: "127.0.0.1",
    requestId: answer.headers.get("x-request-id"),
    metadata: { reason: "client" },
  });
  // Again, and of something that never was: the same answer.
  for (const token of [refreshToken, "never"])
    expect((await it.post("/oauth2/revoke", { client_id: clientId, token })).status).toBe(200);
});

test("an application whose revocation broke off revokes again: its access is over", async () => {
  const app = await it.letIn();
  const revoke = () => it.post("/oauth2/revoke", { client_id: app.clientId, token: app.refreshToken });
  const held = await holdCommits(it, "update", "oauth_grants", "new.revoked_at is not null");
  const first = revoke();
  await held.reached();
  await held.release("lost");
  expect((await first).status).toBeGreaterThanOrEqual(500);
  expect((await revoke()).status).toBe(200);
  await expectOver(app);
});

test("an application cannot revoke what another one holds", async () => {
  const app = await it.letIn();
  const client_id = await it.register();
  expect((await it.post("/oauth2/revoke", { client_id, token: app.refreshToken })).status).toBe(200);
  expect(await it.use(app.token)).toBe(200);
  expect((await it.refresh(app.clientId, app.refreshToken)).status).toBe(200);
});

test("a refresh asks for no more than was granted", async () => {
  const { clientId, refreshToken } = await it.letIn({ role: "reader" });
  const wide = await it.refresh(clientId, refreshToken, { scope: "platform:read platform:write" });
  expect(wide.body.error ?? wide.body.scope).toMatch(/^(invalid_scope|platform:read)$/);
});

async function userOf(clientId: string) {
  const { rows } = await it.pool.query<{ userId: string; grantId: string }>(
    `select user_id as "userId", id as "grantId" from oauth_grants where client_id = $1`,
    [clientId],
  );
  return rows[0]!;
}
