import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { browser } from "../../../support/oauth/browser.ts";
import { challengeOf, type OauthPlatform, oauthPlatform, REDIRECT } from "../../../support/oauth/platform.ts";

let it: OauthPlatform;
let clientId: string;
beforeAll(async () => {
  it = await oauthPlatform();
  clientId = await it.register();
});
afterAll(() => it?.stop());

/** Where a request with these parameters sends the browser. */
async function sentTo(params: Record<string, string | string[] | undefined>, id = clientId): Promise<URL> {
  return new URL((await browser()(it.authorizeUrl(id, params).url)).location!);
}

/** The error with which the browser comes back to the application. */
async function refusedWith(params: Record<string, string | string[] | undefined>): Promise<string> {
  const back = await sentTo(params);
  expect(back.origin + back.pathname).toBe(REDIRECT);
  expect(back.searchParams.get("iss")).toBe(it.origin);
  expect(back.searchParams.get("state")).toBe("the-clients-state");
  return back.searchParams.get("error")!;
}

describe("scopes", () => {
  test.each([
    ["none", undefined, []],
    ["unknown ones alone", "repo user", ["repo", "user"]],
    ["only one that a reader is not given", "platform:write", ["platform:write"]],
    ["openid", "openid", ["openid"]],
    ["everything", "openid offline_access platform:read platform:write", undefined],
  ])("an application that asks for %s is let in after one login and one consent", async (_, scope, asked) => {
    const begun = await it.begin(clientId, { params: { scope } });
    const path = `/oauth/login-request?challenge=${begun.loginChallenge}`;
    const view = await it.must<{ requestedScope: string[] }>("GET", path, undefined, "");
    expect(view.requestedScope).toEqual(asked ?? scope!.split(" "));
    const { status, body } = await it.redeem(begun, await it.allow(begun, { role: "reader" }));
    expect(status).toBe(200);
    expect(body.scope!.split(" ")).toContain("platform:read");
    expect(body.scope).not.toContain("platform:write");
    expect(await it.use(body.access_token!)).toBe(200);
    expect(body.id_token !== undefined).toBe(scope?.includes("openid") ?? false);
  });

  test("an editor's token has the scopes that were asked for", async () => {
    expect((await it.letIn()).body.scope).toBe("platform:read platform:write");
    expect((await it.letIn({ params: { scope: "platform:read" } })).body.scope).toBe("platform:read");
  });

  test("a scope that is sent twice, or has characters that scopes have not, is refused", async () => {
    expect(await refusedWith({ scope: ["platform:read", "platform:write"] })).toBe("invalid_request");
    expect(await refusedWith({ scope: "platform:read ü" })).toBe("invalid_scope");
  });
});

describe("the resource", () => {
  const spelled = (slash: string) => `${it.origin}/v1${slash}`;
  test.each([
    ["", ""],
    ["/", "/"],
    ["", "/"],
    ["/", ""],
  ])("an application that spells it /v1%s, and /v1%s for its token, gets one", async (first, second) => {
    const begun = await it.begin(clientId, { params: { resource: spelled(first) } });
    const challenge = await it.signIn(begun);
    const view = await it.must<{ requestedAudience: string[] }>(
      "GET",
      `/oauth/consent-request?challenge=${challenge}`,
    );
    expect(view.requestedAudience).toEqual([spelled(first)]);
    const body = { consentChallenge: challenge, accountId: it.accountId, role: "reader" };
    const { redirectTo } = (await it.complete("consent", body)).body;
    const back = new URL((await begun.go(redirectTo)).location!);
    const tokens = await it.redeem(begun, back, { resource: spelled(second) });
    expect(tokens.status).toBe(200);
    expect(await it.use(tokens.body.access_token!)).toBe(200);
    const { refresh_token } = tokens.body;
    expect((await it.refresh(clientId, refresh_token!, { resource: spelled(first) })).status).toBe(200);
  });

  test("without one, or with both spellings, tokens are for the API", async () => {
    for (const resource of [undefined, [spelled(""), spelled("/")]]) {
      const begun = await it.begin(clientId, { params: { resource } });
      const { status, body } = await it.redeem(begun, await it.allow(begun), { resource: undefined });
      expect(status).toBe(200);
      expect(await it.use(body.access_token!)).toBe(200);
    }
  });

  test("another one is refused, for the code as for the token", async () => {
    for (const resource of ["https://elsewhere.example/v1", "no-url", `${it.origin}/v2`, `${spelled("")}#f`])
      expect([resource, await refusedWith({ resource })]).toEqual([resource, "invalid_target"]);
    expect(await refusedWith({ resource: [spelled(""), "https://elsewhere.example/"] })).toBe(
      "invalid_target",
    );
    const begun = await it.begin(clientId);
    const back = await it.allow(begun);
    const { status, body } = await it.redeem(begun, back, { resource: "https://elsewhere.example/" });
    expect([status, body.error]).toEqual([400, "invalid_target"]);
  });
});

describe("PKCE", () => {
  test("an authorization without a challenge, or with a plain one, is refused", async () => {
    expect(await refusedWith({ code_challenge: undefined, code_challenge_method: undefined })).toBe(
      "invalid_request",
    );
    expect(await refusedWith({ code_challenge_method: "plain" })).toBe("invalid_request");
    expect(await refusedWith({ code_challenge_method: undefined })).toBe("invalid_request");
  });

  test("a code without its verifier is worth nothing, and stays good for who has it", async () => {
    const begun = await it.begin(clientId);
    const back = await it.allow(begun);
    for (const verifier of [undefined, "x".repeat(43)]) {
      const { status, body } = await it.redeem(begun, back, { code_verifier: verifier });
      expect([status, body.error]).toEqual([400, "invalid_grant"]);
    }
    expect((await it.redeem(begun, back)).status).toBe(200);
  });
});

describe("redirect URIs", () => {
  test("an application on the user's machine listens on any port of the loopback address", async () => {
    for (const redirect_uri of ["http://127.0.0.1/callback", "http://127.0.0.1:51234/callback"])
      expect(challengeOf((await sentTo({ redirect_uri })).href, "login")).toBeTruthy();
  });

  test("a browser is never sent to an address that the application did not register", async () => {
    for (const redirect_uri of [
      "http://127.0.0.1:3000/other",
      "http://127.0.0.1:3000/callback?more=1",
      "http://127.0.0.1:3000/callback/../other",
      "http://127.0.0.2:3000/callback",
      "http://127.0.0.1.evil.example:3000/callback",
      "http://evil.example@127.0.0.1:3000/callback",
      "https://127.0.0.1:3000/callback",
      "https://evil.example/callback",
    ]) {
      const { origin, pathname } = await sentTo({ redirect_uri });
      expect([redirect_uri, origin + pathname]).toEqual([redirect_uri, `${it.origin}/oauth/error`]);
    }
  });

  test("a code is exchanged for the address it was sent to alone", async () => {
    const begun = await it.begin(clientId);
    const back = await it.allow(begun);
    const { body } = await it.redeem(begun, back, { redirect_uri: "http://127.0.0.1:4000/callback" });
    expect(body.error).toBe("invalid_grant");
  });
});

describe("the request", () => {
  test("one without interaction comes back as login_required", async () => {
    expect(await refusedWith({ prompt: "none" })).toBe("login_required");
    const { clientId: known } = await it.letIn();
    const back = await sentTo({ prompt: "none" }, known);
    expect(back.searchParams.get("error")).toBe("login_required");
  });

  test("one of an application that was let in before is asked about again, in the same browser and on the web too", async () => {
    const redirect_uri = "https://app.example.com/callback";
    const web = await it.register({ redirect_uris: [redirect_uri] });
    const go = browser();
    for (const _ of [1, 2]) {
      const begun = await it.begin(web, { go, params: { redirect_uri } });
      const back = await it.allow(begun);
      expect((await it.redeem(begun, back, { redirect_uri })).status).toBe(200);
    }
  });

  test("one that asks for login, for consent, or for both is answered as any other", async () => {
    for (const prompt of ["login", "consent", "login consent"]) {
      const begun = await it.begin(clientId, { params: { prompt, scope: "platform:read offline_access" } });
      const { status, body } = await it.redeem(begun, await it.allow(begun));
      expect([prompt, status, typeof body.refresh_token]).toEqual([prompt, 200, "string"]);
    }
  });

  test("one by POST is refused", async () => {
    const { url } = it.authorizeUrl(clientId);
    const { pathname, searchParams } = new URL(url);
    const answer = await it.post(pathname, Object.fromEntries(searchParams));
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")).toContain("GET");
  });

  test("one of an unknown application stays with Berth, and shows no page of the provider's", async () => {
    const back = await sentTo({}, "unknown");
    expect(back.pathname).toBe("/oauth/error");
    expect(back.searchParams.get("error")).toBe("invalid_client");
  });

  test("one for another kind of answer is refused", async () => {
    expect(await refusedWith({ response_type: "none" })).toBe("unsupported_response_type");
    for (const response_mode of ["form_post", "fragment", "web_message", "jwt"])
      expect(await refusedWith({ response_mode })).toBe("unsupported_response_mode");
    expect((await sentTo({ response_mode: "query" })).pathname).toBe("/oauth/login");
  });

  test("an answer says who issued it, whether it is a code or an error", async () => {
    const begun = await it.begin(clientId);
    const { searchParams } = await it.allow(begun);
    expect([searchParams.get("iss"), searchParams.get("state")]).toEqual([it.origin, "the-clients-state"]);
    const other = await it.begin(clientId);
    const { loginChallenge } = other;
    const rejected = await it.must<{ redirectTo: string }>(
      "POST",
      "/oauth/login/reject",
      { loginChallenge },
      "",
    );
    const back = new URL((await other.go(rejected.redirectTo)).location!);
    expect(Object.fromEntries(back.searchParams)).toMatchObject({ error: "access_denied", iss: it.origin });
  });
});
