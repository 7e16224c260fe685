import * as oauth from "oauth4webapi";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestPlatform, testPlatform } from "../../gateway/testing/test-platform.ts";
import { freePort } from "../../services/kit/process/free-port.ts";

let platform: TestPlatform;
let origin: string;
let call: Awaited<ReturnType<TestPlatform["gateway"]>>["call"];

beforeAll(async () => {
  const port = await freePort();
  origin = `http://127.0.0.1:${port}`;
  platform = await testPlatform({}, origin);
  ({ call } = await platform.gateway({ PORT: String(port), PUBLIC_ORIGIN: origin }));
});
afterAll(() => platform.stop());

/** A browser: it keeps cookies, and shows where it is sent. */
function browser() {
  const cookies = new Map<string, string>();
  return async (url: string) => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { redirect: "manual", headers: cookie ? { cookie } : {} });
    for (const set of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(set)!;
      if (value) cookies.set(name!, value);
      else cookies.delete(name!);
    }
    return {
      status: response.status,
      location: response.headers.get("location")!,
      text: await response.text(),
    };
  };
}

test("an application registers, a user signs in and consents, and it gets access to that account alone", async () => {
  const http = { [oauth.allowInsecureRequests]: true };
  const issuer = new URL(origin);
  const as = await oauth
    .discoveryRequest(issuer, { algorithm: "oauth2", ...http })
    .then((response) => oauth.processDiscoveryResponse(issuer, response));
  const registered = await fetch(as.registration_endpoint!, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ client_name: "An app", redirect_uris: ["http://127.0.0.1/callback"] }),
  });
  expect(registered.status).toBe(201);
  const client = (await registered.json()) as oauth.Client;
  const verifier = oauth.generateRandomCodeVerifier();
  const authorize = new URL(as.authorization_endpoint!);
  authorize.search = new URLSearchParams({
    client_id: client.client_id,
    response_type: "code",
    redirect_uri: "http://127.0.0.1:3000/callback",
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    scope: "platform:write",
    state: "s",
    resource: `${origin}/v1`,
  }).toString();
  const go = browser();
  const login = await go(authorize.href);
  const loginChallenge = new URL(login.location).searchParams.get("login_challenge")!;
  const asked = await call("GET", `/oauth/login-request?challenge=${loginChallenge}`, undefined, {
    token: "",
  });
  expect(asked.body).toMatchObject({ client: { clientName: "An app" }, requestedScope: ["platform:write"] });
  const signedIn = await call("POST", "/oauth/login/complete", { loginChallenge });
  expect(signedIn.status).toBe(200);
  const consent = await go(signedIn.body.redirectTo as string);
  const consentChallenge = new URL(consent.location).searchParams.get("consent_challenge")!;
  const view = await call("GET", `/oauth/consent-request?challenge=${consentChallenge}`);
  const [account] = view.body.accounts as { id: string }[];
  const accepted = await call("POST", "/oauth/consent/complete", {
    consentChallenge,
    accountId: account!.id,
    role: "reader",
  });
  expect(accepted.text).toContain("redirectTo");
  const back = await go(accepted.body.redirectTo as string);
  expect(back.location).toContain("code=");
  const params = oauth.validateAuthResponse(as, client, new URL(back.location), "s");
  const tokens = await oauth
    .authorizationCodeGrantRequest(
      as,
      client,
      oauth.None(),
      params,
      "http://127.0.0.1:3000/callback",
      verifier,
      { ...http, additionalParameters: { resource: `${origin}/v1` } },
    )
    .then((response) => oauth.processAuthorizationCodeResponse(as, client, response));
  const token = tokens.access_token;
  const read = await call("GET", `/accounts/${account!.id}`, undefined, { token });
  expect(read.status).toBe(200);
  const write = await call("PATCH", `/accounts/${account!.id}`, { displayName: "x" }, { token });
  expect(write.status).toBe(403);
  expect((await call("GET", "/me/mcp-grants")).body).toMatchObject([
    { clientName: "An app", role: "reader", accountId: account!.id },
  ]);
  expect((await call("GET", "/me/mcp-grants", undefined, { token })).body.error.code).toBe(
    "machine_actor_forbidden",
  );
  expect((await call("DELETE", `/me/mcp-grants/${client.client_id}`)).status).toBe(204);
  await expect
    .poll(async () => (await call("GET", `/accounts/${account!.id}`, undefined, { token })).status)
    .toBe(401);
  const refreshed = await oauth.refreshTokenGrantRequest(
    as,
    client,
    oauth.None(),
    tokens.refresh_token!,
    http,
  );
  expect(await refreshed.json()).toMatchObject({ error: "invalid_grant" });
});
