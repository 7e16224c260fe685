import * as oauth from "oauth4webapi";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { eventually } from "../../../../services/kit/testing/testing.ts";
import { refusal } from "../../../support/door.ts";
import { type OauthPlatform, oauthPlatform } from "../../../support/oauth/platform.ts";
import { createReplicas } from "../../../support/oauth/replicas.ts";

const http = { [oauth.allowInsecureRequests]: true };
const none = oauth.None();
const GRANT = "urn:ietf:params:oauth:grant-type:device_code";
const CODE = "authorization_code";
const UNKNOWN = "422 unknown_code";

let it: OauthPlatform;
let as: oauth.AuthorizationServer;
beforeAll(async () => {
  it = await oauthPlatform();
  const issuer = new URL(it.origin);
  const found = await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...http });
  as = await oauth.processDiscoveryResponse(issuer, found);
});
afterEach(() => {
  it.clock.aheadMs = 0;
});
afterAll(() => it?.stop());

/** Registers a client that has no browser, so no redirect URI either. */
async function registerDevice(name = "A television") {
  const metadata = { client_name: name, grant_types: [GRANT], token_endpoint_auth_method: "none" };
  const answer = await oauth.dynamicClientRegistrationRequest(as, metadata as never, http);
  expect(await answer.clone().json()).toMatchObject({
    grant_types: ["refresh_token", GRANT],
    redirect_uris: [],
    response_types: [],
  });
  return (await oauth.processDynamicClientRegistrationResponse(answer)) as oauth.Client;
}

/** A device asks for a code, and can then poll for its tokens. */
async function ask(given?: oauth.Client, params: Record<string, string> = {}) {
  const client = given ?? (await registerDevice());
  const scope = { scope: "platform:read platform:write", resource: it.baseUrl, ...params };
  const answer = await oauth.deviceAuthorizationRequest(as, client, none, scope, http);
  const asked = await oauth.processDeviceAuthorizationResponse(as, client, answer);
  // The other spelling of the resource, as some clients have it.
  const more = { ...http, additionalParameters: { resource: `${it.baseUrl}/` } };
  const poll = () => oauth.deviceCodeGrantRequest(as, client, none, asked.device_code, more);
  return {
    ...{ client, asked, userCode: asked.user_code, poll },
    /** The status and error of a poll. */
    polled: async () => {
      const polledAnswer = await poll();
      const { error } = (await polledAnswer.json()) as { error?: string };
      return error === undefined ? String(polledAnswer.status) : `${polledAnswer.status} ${error}`;
    },
    tokens: async () => oauth.processDeviceCodeResponse(as, client, await poll()),
  };
}

type User = { token: string };

const view = (userCode: string, user?: User) =>
  it.call("GET", `/oauth/device-request?${new URLSearchParams({ userCode })}`, undefined, user ?? {});

const allow = (userCode: string, how: { user?: User; role?: string; accountId?: string } = {}) => {
  const { user = {}, role = "reader", accountId = it.accountId } = how;
  return it.call("POST", "/oauth/device/complete", { userCode, accountId, role }, user);
};

const deny = (userCode: string, user: User | object = {}) =>
  it.call("POST", "/oauth/device/reject", { userCode }, user);

test("a device gets the access that its user chose, keeps it by refreshing, and loses it when it is revoked", async () => {
  const user = await it.member("editor");
  const { client, asked, userCode, polled, tokens } = await ask();
  expect(asked).toMatchObject({ verification_uri: `${it.origin}/device`, expires_in: 600, interval: 5 });
  expect(asked.verification_uri_complete).toBe(`${it.origin}/device?user_code=${userCode}`);
  expect(userCode).toMatch(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
  expect(await polled()).toBe("400 authorization_pending");
  // However it is typed.
  const shown = await view(` ${userCode.toLowerCase().replace("-", " ")} `, user);
  expect(shown.body).toMatchObject({
    client: { clientId: client.client_id, clientName: "A television", redirectHost: "" },
    requestedScope: ["platform:read", "platform:write"],
    requestedAudience: [it.baseUrl],
    accounts: [{ id: it.accountId, myRole: "editor", grantableRoles: ["reader", "editor"] }],
    ...{ userCode, ip: "127.0.0.1", sameNetwork: true },
  });
  expect(shown.body.client).not.toHaveProperty("firstParty");
  expect((await allow(userCode, { user })).status).toBe(204);
  const issued = await tokens();
  expect(issued).toMatchObject({ token_type: "bearer", scope: "platform:read", expires_in: 900 });
  const rename = { displayName: "Renamed" };
  const change = await it.call("PATCH", it.A, rename, { token: issued.access_token });
  expect([await it.use(issued.access_token), change.status]).toEqual([200, 403]);
  const again = await oauth.refreshTokenGrantRequest(as, client, none, issued.refresh_token!, http);
  const refreshed = await oauth.processRefreshTokenResponse(as, client, again);
  expect(await it.use(refreshed.access_token)).toBe(200);
  expect(await it.grants(user.token)).toMatchObject([
    { clientId: client.client_id, clientName: "A television", role: "reader", accountId: it.accountId },
  ]);
  const [granted] = await it.audited("oauth.consent.granted");
  expect(granted).toMatchObject({
    metadata: { clientName: "A television", role: "reader", deviceIp: "127.0.0.1" },
  });
  await it.must("DELETE", `/me/mcp-grants/${client.client_id}`, undefined, user.token);
  await eventually("the token is refused", async () => (await it.use(refreshed.access_token)) === 401);
  expect((await it.refresh(client.client_id, refreshed.refresh_token!)).body.error).toBe("invalid_grant");
});

test("a device that is denied is told so, as often as it asks", async () => {
  const { userCode, polled } = await ask();
  expect((await deny(userCode)).status).toBe(204);
  expect([await polled(), await polled()]).toEqual(Array(2).fill("400 access_denied"));
  expect(refusal(await allow(userCode))).toBe(UNKNOWN);
});

test("a code has one answer, whichever replica takes it, and its tokens are issued once", async () => {
  const replicas = createReplicas(it);
  try {
    const other = await replicas.replica();
    const user = await it.member("editor");
    const { userCode, poll, polled } = await ask();
    const body = { userCode, accountId: it.accountId, role: "editor" };
    const answers = await Promise.all([
      ...[it, other, it, other].map(({ call }) => call("POST", "/oauth/device/complete", body, user)),
      other.call("POST", "/oauth/device/reject", { userCode }, user),
    ]);
    expect(answers.map(({ status }) => status).sort()).toEqual([204, 422, 422, 422, 422]);
    const denied = answers.at(-1)!.status === 204;
    expect(await it.grants(user.token)).toHaveLength(denied ? 0 : 1);
    if (denied) return expect(await polled()).toBe("400 access_denied");
    const { access_token: token } = (await (await poll()).json()) as { access_token: string };
    expect(await it.use(token)).toBe(200);
    // Whoever has the code too may be a thief: the grant ends.
    expect(await polled()).toBe("400 invalid_grant");
    await eventually("the token is refused", async () => (await it.use(token)) === 401);
    expect(await it.grants(user.token)).toEqual([]);
  } finally {
    await replicas.stop();
  }
});

test("of two devices' requests with one device code, one gets tokens", async () => {
  const user = await it.member("editor");
  const { userCode, polled } = await ask();
  expect((await allow(userCode, { user })).status).toBe(204);
  const answers = await Promise.all([1, 2, 3].map(polled));
  expect(answers.filter((one) => one === "200").length).toBeLessThanOrEqual(1);
  expect(answers.filter((one) => one !== "200" && one !== "400 invalid_grant")).toEqual([]);
});

test("a device that asks too often is told to slow down, until it does", async () => {
  const { userCode, polled } = await ask();
  expect([await polled(), await polled()]).toEqual(["400 authorization_pending", "400 slow_down"]);
  it.clock.aheadMs += 6_000;
  expect(await polled()).toBe("400 slow_down");
  it.clock.aheadMs += 16_000;
  expect(await polled()).toBe("400 authorization_pending");
  // Nobody who was let in has to wait.
  expect((await allow(userCode)).status).toBe(204);
  expect(await polled()).toBe("200");
});

test("a code that has expired opens nothing, and its device is told to begin again", async () => {
  const [{ userCode, polled }, late] = [await ask(), await ask()];
  it.clock.aheadMs = 595_000;
  expect((await allow(late.userCode)).status).toBe(204);
  it.clock.aheadMs = 605_000;
  expect(refusal(await view(userCode))).toBe(UNKNOWN);
  expect(refusal(await allow(userCode))).toBe(UNKNOWN);
  expect(refusal(await deny(userCode))).toBe(UNKNOWN);
  expect(await polled()).toBe("400 expired_token");
});

test("a user who guesses codes has to wait; others do not, and a slip of the finger is no guess", async () => {
  const [user, other] = [await it.member("editor"), await it.member("editor")];
  const { userCode } = await ask();
  const guesses = [..."BCDFGHJKLM"].map((letter) => `${letter.repeat(4)}-${letter.repeat(4)}`);
  for (const slip of [userCode.slice(1), "aeiou", "…", `${userCode}X`])
    expect(refusal(await view(slip, user))).toBe(UNKNOWN);
  // What succeeds does not count either.
  for (let n = 0; n < 3; n++) expect((await view(userCode, user)).status).toBe(200);
  const tried = await Promise.all(guesses.map((guess) => view(guess, user)));
  expect(tried.map(refusal)).toEqual(Array(10).fill(UNKNOWN));
  for (const refused of [
    await view(userCode, user),
    await allow(userCode, { user }),
    await deny(userCode, user),
  ])
    expect(refusal(refused)).toBe("429 rate_limited");
  expect((await view(userCode, other)).status).toBe(200);
  it.clock.aheadMs = 15 * 60_000 + 1000;
  expect(refusal(await view(userCode, user))).toBe(UNKNOWN);
});

test("a device gets no more than its user may give, and only from users themselves", async () => {
  const reader = await it.member("reader");
  const { userCode, polled, client } = await ask();
  expect(refusal(await allow(userCode, { user: reader, role: "editor" }))).toBe("403 role_not_grantable");
  const stranger = await it.member("reader");
  await it.must("DELETE", `${it.A}/members/${stranger.userId}`);
  expect(refusal(await allow(userCode, { user: stranger }))).toBe("403 not_a_member");
  const app = await it.letIn();
  for (const answer of [
    await view(userCode, app),
    await allow(userCode, { user: app }),
    await deny(userCode, app),
  ])
    expect(refusal(answer)).toBe("403 machine_actor_forbidden");
  expect((await view(userCode, { token: "" })).status).toBe(401);
  const limited = await it.must<User>("POST", "/me/tokens", { name: "low", roleCap: "reader" });
  expect(refusal(await view(userCode, limited))).toBe("403 forbidden");
  const invalid = await it.call("POST", "/oauth/device/complete", {
    userCode,
    accountId: it.accountId,
    role: "owner",
  });
  expect(refusal(invalid)).toBe("422 invalid_choice");
  expect(await polled()).toBe("400 authorization_pending");
  // The user leaves before the device asks: the grant that was given is worth nothing.
  expect((await allow(userCode, { user: reader })).status).toBe(204);
  await it.must("DELETE", `${it.A}/members/${reader.userId}`);
  expect(await polled()).toBe("400 invalid_grant");
  expect(client.client_id).toBeTruthy();
});

test("a device that knows its user by an ID token gets that one, and nobody else", async () => {
  const user = await it.member("reader");
  const scope = { scope: "openid platform:read" };
  const first = await ask(undefined, scope);
  expect((await allow(first.userCode, { user })).status).toBe(204);
  const { id_token } = (await (await first.poll()).json()) as { id_token: string };
  const { userCode, polled } = await ask(first.client, { ...scope, id_token_hint: id_token });
  for (const answer of [await view(userCode), await allow(userCode), await deny(userCode)])
    expect(refusal(answer)).toBe("403 subject_mismatch");
  expect((await allow(userCode, { user })).status).toBe(204);
  expect(await polled()).toBe("200");
});

test("requests of clients that may not use the grant, or are not from here, are refused in OAuth's words", async () => {
  const plain = await it.register();
  const device = await ask();
  const { client_id: clientId } = device.client;
  const request = (form: Record<string, string | string[]>) => it.post("/oauth2/device_authorization", form);
  const answers = {
    "without the grant": await request({ client_id: plain }),
    unknown: await request({ client_id: "no-such-client" }),
    unnamed: await request({}),
    "for another API": await request({ client_id: clientId, resource: "https://elsewhere.example.com/v1" }),
    "twice in one": await request({ client_id: [clientId, clientId] }),
    "with control characters": await request({ client_id: clientId, scope: "a\u0001b" }),
    "another client's code": await it.post("/oauth2/token", {
      grant_type: GRANT,
      client_id: (await registerDevice()).client_id,
      device_code: device.asked.device_code,
    }),
    "no code": await it.post("/oauth2/token", {
      grant_type: GRANT,
      client_id: clientId,
      device_code: "none",
    }),
    "the user's code": await it.post("/oauth2/token", {
      ...{ grant_type: GRANT, client_id: clientId },
      device_code: device.userCode,
    }),
  };
  const told = Object.entries(answers).map(([what, { status, body }]) => [what, `${status} ${body.error}`]);
  expect(Object.fromEntries(told)).toEqual({
    "without the grant": "400 unauthorized_client",
    unknown: "401 invalid_client",
    unnamed: "400 invalid_request",
    "for another API": "400 invalid_target",
    "twice in one": "400 invalid_request",
    "with control characters": "400 invalid_scope",
    "another client's code": "400 invalid_grant",
    "no code": "400 invalid_grant",
    "the user's code": "400 invalid_grant",
  });
  expect(answers["without the grant"].body.error_description).toContain(GRANT);
  for (const { headers } of Object.values(answers)) expect(headers.get("cache-control")).toBe("no-store");
});

test("a page shows from where a device asks, and devices that wait are no failures", async () => {
  const limits = { RATE_LIMITS: "on", RATE_LIMIT_TOKEN_FAILURES: "3", TRUST_PROXY: "loopback" };
  const { port } = await it.platform.gateway({ ...it.gatewayEnv, ...limits });
  const client = await registerDevice();
  const post = async (path: string, form: Record<string, string>) => {
    const body = new URLSearchParams({ client_id: client.client_id, ...form });
    const headers = { "x-forwarded-for": "203.0.113.7" };
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", body, headers });
    return { status: answer.status, body: (await answer.json()) as Record<string, string> };
  };
  const { body } = await post("/oauth2/device_authorization", {});
  expect((await view(body.user_code!)).body).toMatchObject({ ip: "203.0.113.7", sameNetwork: false });
  const poll = { grant_type: GRANT, device_code: body.device_code! };
  for (const error of ["authorization_pending", ...Array(6).fill("slow_down")])
    expect(await post("/oauth2/token", poll)).toMatchObject({ status: 400, body: { error } });
  expect((await allow(body.user_code!)).status).toBe(204);
  expect((await post("/oauth2/token", poll)).status).toBe(200);
});

test("every copy of Berth's command line is one client, which has no row and cannot be taken over", async () => {
  const register = (metadata: object) =>
    it.must<Record<string, unknown>>("POST", "/oauth/register", metadata, "");
  const cli = {
    client_name: "anything",
    software_id: "berth-cli",
    grant_types: ["authorization_code", GRANT],
  };
  const registered = [
    await register({ ...cli, redirect_uris: ["http://127.0.0.1:51234/callback"] }),
    await register({ ...cli, grant_types: [GRANT] }),
  ];
  for (const one of registered)
    expect(one).toMatchObject({
      client_id: "berth-cli",
      client_name: "Berth CLI",
      grant_types: [CODE, "refresh_token", GRANT],
    });
  const elsewhere = { ...cli, redirect_uris: ["https://app.example.com/callback"] };
  expect((await register(elsewhere)).client_id).not.toBe("berth-cli");

  const params = { redirect_uri: "http://127.0.0.1:61234/callback" };
  const begun = await it.begin("berth-cli", { params });
  const shown = await it.must("GET", `/oauth/login-request?challenge=${begun.loginChallenge}`);
  expect(shown).toMatchObject({ client: { clientName: "Berth CLI", firstParty: true } });
  const back = await it.allow(begun);
  expect((await it.redeem(begun, back, params)).status).toBe(200);
  const stranger = it.authorizeUrl("berth-cli", { redirect_uri: "https://app.example.com/callback" });
  const answer = await fetch(stranger.url, { redirect: "manual" });
  expect(answer.headers.get("location")).toContain("/oauth/error?error=invalid_redirect_uri");

  const { userCode, tokens } = await ask({ client_id: "berth-cli" });
  expect((await view(userCode)).body.client).toMatchObject({ clientName: "Berth CLI", firstParty: true });
  expect((await allow(userCode)).status).toBe(204);
  expect(await it.use((await tokens()).access_token)).toBe(200);
  expect((await it.pool.query("select from oauth_clients where id = 'berth-cli'")).rowCount).toBe(0);
});
