import { afterAll, beforeAll, expect, test } from "vitest";
import { type OauthPlatform, oauthPlatform } from "../../../support/oauth/platform.ts";

let it: OauthPlatform;
beforeAll(async () => {
  it = await oauthPlatform();
});
afterAll(() => it?.stop());

const GRACE_MS = 30_000;

test("a refresh token that another application sends changes nothing, also long after it was replaced", async () => {
  const { clientId, refreshToken, token } = await it.letIn();
  const thief = await it.register({ client_name: "Another app" });
  const { body } = await it.refresh(clientId, refreshToken);
  it.clock.aheadMs += GRACE_MS + 1_000;
  for (const stolen of [refreshToken, body.refresh_token!]) {
    const answer = await it.refresh(thief, stolen);
    expect([answer.status, answer.body.error]).toEqual([400, "invalid_grant"]);
  }
  expect(await it.use(token)).toBe(200);
  expect((await it.refresh(clientId, body.refresh_token!)).status).toBe(200);
});

test("two users of one application have nothing to do with each other", async () => {
  const clientId = await it.register();
  const mine = await it.letIn({ clientId });
  const other = await it.member("editor");
  const own = await it.must<{ id: string }>("POST", "/accounts", { handle: "others" }, other.token);
  const theirs = await it.letIn({ clientId, token: other.token, accountId: own.id });
  expect([await it.use(theirs.token, own.id), await it.use(theirs.token)]).toEqual([200, 403]);
  expect([await it.use(mine.token), await it.use(mine.token, own.id)]).toEqual([200, 403]);
  expect(await it.grants(other.token)).toMatchObject([{ clientId, accountId: own.id }]);
  await it.must("DELETE", `/me/mcp-grants/${clientId}`, undefined, other.token);
  expect([await it.use(theirs.token, own.id), await it.use(mine.token)]).toEqual([401, 200]);
  expect((await it.refresh(clientId, mine.refreshToken)).status).toBe(200);
  expect((await it.refresh(clientId, theirs.refreshToken)).status).toBe(400);
});
