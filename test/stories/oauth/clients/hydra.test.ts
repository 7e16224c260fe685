import * as oauth from "oauth4webapi";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestPlatform, testPlatform } from "../../../../gateway/testing/test-platform.ts";
import { freePort } from "../../../../services/kit/process/free-port.ts";
import { eventually } from "../../../../services/kit/testing/testing.ts";
import { type Door, openDoor } from "../../../support/door.ts";
import { browser } from "../../../support/oauth/browser.ts";
import { findHydra, type HydraServer, startHydra } from "../../../support/servers/hydra-server.ts";

const program = await findHydra();
const REDIRECT = "http://127.0.0.1:3000/callback";
const http = { [oauth.allowInsecureRequests]: true };

describe.skipIf(program === undefined)("with Ory Hydra as the provider", () => {
  let hydra: HydraServer;
  let platform: TestPlatform;
  let door: Door;
  beforeAll(async () => {
    const port = await freePort();
    const origin = `http://127.0.0.1:${port}`;
    hydra = await startHydra(program!, { origin });
    const env = { IDENTITY_PROVIDER: "hydra", HYDRA_ADMIN_URL: hydra.adminUrl };
    platform = await testPlatform({}, origin, { env });
    await platform.gateway({ PORT: String(port), PUBLIC_ORIGIN: origin, OAUTH_URL: hydra.publicUrl });
    door = await openDoor(origin, platform.ownerToken);
  });
  afterAll(async () => {
    await platform?.stop();
    await hydra?.stop();
  });

  async function discover() {
    const issuer = new URL(door.origin);
    const answer = await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...http });
    return oauth.processDiscoveryResponse(issuer, answer);
  }

  /** A client registers, and its browser comes to the login; `answer` tells Berth what the user decides there. */
  async function begin() {
    const as = await discover();
    const metadata = { client_name: "An app", redirect_uris: [REDIRECT], token_endpoint_auth_method: "none" };
    const registered = await oauth.dynamicClientRegistrationRequest(as, metadata, http);
    const client = (await oauth.processDynamicClientRegistrationResponse(registered)) as oauth.Client;
    const verifier = oauth.generateRandomCodeVerifier();
    const state = oauth.generateRandomState();
    const url = new URL(as.authorization_endpoint!);
    url.search = new URLSearchParams({
      client_id: client.client_id,
      response_type: "code",
      redirect_uri: REDIRECT,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
      scope: "platform:read platform:write",
      resource: door.baseUrl,
      state,
    }).toString();
    const go = browser();
    const page = new URL((await go(url.href)).location!);
    const loginChallenge = page.searchParams.get("login_challenge")!;
    const answer = async (path: string, body: object): Promise<URL> => {
      const { redirectTo } = await door.must<{ redirectTo: string }>("POST", `/oauth/${path}`, body);
      return new URL((await go(redirectTo)).location!);
    };
    return { as, client, verifier, state, page, loginChallenge, answer };
  }

  async function authorize(role: "reader" | "editor") {
    const { as, client, verifier, state, loginChallenge, answer } = await begin();
    const page = await answer("login/complete", { loginChallenge });
    const consentChallenge = page.searchParams.get("consent_challenge")!;
    const view = await door.must("GET", `/oauth/consent-request?challenge=${consentChallenge}`);
    const { accountId } = door;
    const back = await answer("consent/complete", { consentChallenge, accountId, role });
    const params = oauth.validateAuthResponse(as, client, back, state);
    const additionalParameters = { resource: door.baseUrl };
    const more = { ...http, additionalParameters };
    const none = oauth.None();
    const answered = await oauth.authorizationCodeGrantRequest(
      ...([as, client, none, params, REDIRECT, verifier, more] as const),
    );
    const tokens = await oauth.processAuthorizationCodeResponse(as, client, answered);
    const refresh = (token: string) => oauth.refreshTokenGrantRequest(as, client, none, token, http);
    return { as, client, view, tokens, refresh, answers: { loginChallenge, consentChallenge } };
  }

  /** What a token may do in the account: the statuses of reading, and of renaming it. */
  async function reach(token: string): Promise<[number, number]> {
    const read = await door.call("GET", door.A, undefined, { token });
    const write = await door.call("PATCH", door.A, { displayName: "Renamed" }, { token });
    return [read.status, write.status];
  }

  test("a client gets the access that its user chose, keeps it by refreshing, and loses it when it is revoked", async () => {
    const { as, client, view, tokens, refresh } = await authorize("reader");
    expect(view).toMatchObject({
      client: { clientId: client.client_id, clientName: "An app", redirectHost: "127.0.0.1:3000" },
      requestedScope: ["platform:read", "platform:write"],
      requestedAudience: [door.baseUrl],
      accounts: [{ id: door.accountId, grantableRoles: ["reader", "editor"] }],
    });
    expect(await reach(tokens.access_token)).toEqual([200, 403]);
    expect(tokens.expires_in).toBeLessThanOrEqual(900);
    expect(tokens.scope).not.toContain("write");
    const again = await oauth.processRefreshTokenResponse(as, client, await refresh(tokens.refresh_token!));
    expect(await reach(again.access_token)).toEqual([200, 403]);
    const { status, body } = await door.call("GET", "/me/mcp-grants", undefined, {
      token: again.access_token,
    });
    expect([status, body.error?.code]).toEqual([403, "machine_actor_forbidden"]);
    expect(await door.must("GET", "/me/mcp-grants")).toMatchObject([
      { clientId: client.client_id, clientName: "An app", role: "reader", accountId: door.accountId },
    ]);
    await door.must("DELETE", `/me/mcp-grants/${client.client_id}`);
    await eventually("the token is refused", async () => (await reach(again.access_token))[0] === 401);
    expect(await (await refresh(again.refresh_token!)).json()).toMatchObject({ error: "invalid_grant" });
    expect(await door.must("GET", "/me/mcp-grants")).toEqual([]);
  });

  test("a user who says no sends the client away; challenges work once, and for their step", async () => {
    const { answer, loginChallenge, state } = await begin();
    const shown = await door.call("GET", `/oauth/login-request?challenge=${loginChallenge}`, undefined, {
      token: "",
    });
    expect(shown.body).toMatchObject({ client: { clientName: "An app" } });
    const page = await answer("login/complete", { loginChallenge });
    const consentChallenge = page.searchParams.get("consent_challenge")!;
    const denied = await answer("consent/reject", { consentChallenge });
    expect(Object.fromEntries(denied.searchParams)).toMatchObject({ error: "access_denied", state });
    for (const [path, body] of [
      ["login/complete", { loginChallenge }],
      ["login/reject", { loginChallenge: consentChallenge }],
      ["consent/reject", { consentChallenge }],
      ["consent/complete", { consentChallenge: loginChallenge, accountId: door.accountId, role: "reader" }],
      ["login/complete", { loginChallenge: "x".repeat(8_192) }],
    ] as const) {
      const { status, body: answered } = await door.call("POST", `/oauth/${path}`, body);
      expect([path, status, answered.error?.details[0]?.reason]).toEqual([path, 422, "challenge_expired"]);
    }
  });

  test("what clients are told of the provider is true", async () => {
    const as = await discover();
    expect(as).toMatchObject({ issuer: door.origin, code_challenge_methods_supported: ["S256"] });
    // Hydra sends no iss with its answers (RFC 9207).
    expect(as.authorization_response_iss_parameter_supported).toBeFalsy();
    const keys = (await (await fetch(as.jwks_uri!)).json()) as { keys: { d?: string }[] };
    expect(keys.keys.length).toBeGreaterThan(0);
    expect(keys.keys.filter(({ d }) => d !== undefined)).toEqual([]);
  });

  test("devices without a browser are not offered, and say why; the command line comes in by a browser", async () => {
    const as = await discover();
    expect(as).not.toHaveProperty("device_authorization_endpoint");
    expect(as.grant_types_supported).toEqual(["authorization_code", "refresh_token"]);
    const body = new URLSearchParams({ client_id: "berth-cli" });
    const refused = await fetch(`${door.origin}/oauth2/device_authorization`, { method: "POST", body });
    expect([refused.status, await refused.json()]).toEqual([
      400,
      { error: "unsupported_grant_type", error_description: expect.stringContaining("Ory Hydra") },
    ]);
    const view = await door.call("GET", "/oauth/device-request?userCode=BCDF-GHJK");
    expect(view.body.error?.details[0]?.reason).toBe("unknown_code");
    const port = 40_123;
    const cli = { software_id: "berth-cli", redirect_uris: ["http://127.0.0.1/callback"] };
    for (let copies = 0; copies < 2; copies++)
      expect(await door.must("POST", "/oauth/register", cli, "")).toMatchObject({ client_id: "berth-cli" });
    const url = new URL(as.authorization_endpoint!);
    url.search = new URLSearchParams({
      ...{ client_id: "berth-cli", response_type: "code", state: "a-state-of-its-own" },
      redirect_uri: `http://127.0.0.1:${port}/callback`,
      code_challenge: await oauth.calculatePKCECodeChallenge(oauth.generateRandomCodeVerifier()),
      code_challenge_method: "S256",
    }).toString();
    const page = new URL((await browser()(url.href)).location!);
    const loginChallenge = page.searchParams.get("login_challenge");
    const shown = await door.must("GET", `/oauth/login-request?challenge=${loginChallenge}`);
    expect(shown).toMatchObject({ client: { clientName: "Berth CLI", firstParty: true } });
  });

  test("while Hydra does not answer nothing is granted, and each step works once it answers again", async () => {
    const { loginChallenge, answer } = await begin();
    const { tokens } = await authorize("reader");
    hydra.hold();
    try {
      const register = { client_name: "An app", redirect_uris: [REDIRECT] };
      const answers = await Promise.all([
        door.call("GET", `/oauth/login-request?challenge=${loginChallenge}`),
        door.call("POST", "/oauth/login/complete", { loginChallenge }),
        door.call("POST", "/oauth/register", register, { token: "" }),
        door.call("GET", door.A, undefined, { token: `${tokens.access_token.slice(0, -1)}_` }),
      ]);
      expect(answers.map(({ status, body }) => `${status} ${body.error?.code}`)).toEqual([
        ...Array(3).fill("502 identity_provider_unavailable"),
        "503 unavailable",
      ]);
    } finally {
      hydra.resume();
    }
    const page = await answer("login/complete", { loginChallenge });
    expect(page.searchParams.get("consent_challenge")).toBeTruthy();
    expect((await begin()).loginChallenge).toBeTruthy();
  });
});
