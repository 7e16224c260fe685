import { once } from "node:events";
import http from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browser } from "../../../support/oauth/browser.ts";
import { challengeOf, type OauthPlatform, oauthPlatform } from "../../../support/oauth/platform.ts";

let it: OauthPlatform;
beforeAll(async () => {
  it = await oauthPlatform();
});
afterAll(() => it?.stop());

const ERROR_PAGE = /\/oauth\/error\?error=invalid_request/;

test("what a user approved is not handed to the browser of an attacker who began it", async () => {
  const attacker = await it.begin(await it.register());
  const { loginChallenge } = attacker;
  const victim = await it.complete("login", { loginChallenge });
  const resume = victim.body.redirectTo.split("?")[0]!;
  const direct = resume.replace(it.origin, `http://127.0.0.1:${it.platform.identityPort}`);
  const shouted = direct.replace("/oauth2/auth/", "/OAUTH2/AUTH/");
  for (const url of [resume, `${resume}/`, direct, `${direct}/`, shouted])
    for (const guess of ["", "?verifier=", "?verifier=guess", "?verifier=a&verifier=b"])
      expect((await attacker.go(url + guess)).location ?? "").not.toContain("consent_challenge");
  expect((await attacker.go(resume)).location).toMatch(ERROR_PAGE);
  // The victim's own browser did not begin it either.
  expect((await browser()(victim.body.redirectTo)).location).toMatch(ERROR_PAGE);
  expect(await it.grants()).toEqual([]);
});

test("the verifier of an attacker's own decision does not open what somebody else approved", async () => {
  const clientId = await it.register();
  const [lure, own] = [await it.begin(clientId), await it.begin(clientId)];
  const approved = await it.complete("login", { loginChallenge: lure.loginChallenge });
  const mine = await it.complete("login", { loginChallenge: own.loginChallenge });
  const path = new URL(approved.body.redirectTo).pathname;
  const cookie = lure.go.cookieOf("berth_resume", path);
  // His step, in the path and with its verifier, but with the cookie of the step that the victim approved.
  const answer = await browser()(mine.body.redirectTo, { cookie });
  expect(answer.location).toMatch(ERROR_PAGE);
});

test("a user consents in the browser in which somebody else was signed in, for himself alone", async () => {
  const clientId = await it.register();
  const [first, second] = [await it.member("editor"), await it.member("reader")];
  const go = browser();
  const one = await it.begin(clientId, { go });
  expect((await it.redeem(one, await it.allow(one, first))).status).toBe(200);
  const two = await it.begin(clientId, { go });
  const back = await it.allow(two, { ...second, role: "reader" });
  const { body } = await it.redeem(two, back);
  expect(await it.use(body.access_token!)).toBe(200);
  expect(await it.grants(first.token)).toMatchObject([{ clientId, role: "editor" }]);
  expect(await it.grants(second.token)).toMatchObject([{ clientId, role: "reader" }]);
});

test("a user who begins while another one's consent waits in the same browser gets access of his own", async () => {
  const clientId = await it.register();
  const go = browser();
  const other = await it.member("reader");
  await it.signIn(await it.begin(clientId, { go }));
  const begun = await it.begin(clientId, { go });
  const back = await it.allow(begun, { ...other, role: "reader" });
  expect(back.searchParams.get("code")).toBeTruthy();
});

test("two tabs of one user both come to their end", async () => {
  const clientId = await it.register();
  const go = browser();
  const tabs = [await it.begin(clientId, { go }), await it.begin(clientId, { go })];
  const consents = [];
  for (const tab of tabs) consents.push(await it.signIn(tab));
  for (const [index, consentChallenge] of consents.entries()) {
    const { body } = await it.complete("consent", {
      consentChallenge,
      accountId: it.accountId,
      role: "reader",
    });
    const back = new URL((await go(body.redirectTo)).location!);
    expect((await it.redeem(tabs[index]!, back)).status).toBe(200);
  }
});

test("a forged Host is nowhere in what the provider says", async () => {
  const { url } = it.authorizeUrl(await it.register());
  for (const port of [it.gateway.port, it.platform.identityPort]) {
    const headers = {
      host: "evil.example",
      "x-forwarded-host": "evil.example",
      "x-forwarded-proto": "https",
    };
    const request = http.get(url, { port, headers, agent: false });
    const [answer] = (await once(request, "response")) as [http.IncomingMessage];
    answer.resume();
    expect(JSON.stringify(answer.headers)).not.toContain("evil");
    const loginChallenge = challengeOf(answer.headers.location!, "login");
    const { redirectTo } = (await it.complete("login", { loginChallenge })).body;
    expect(new URL(redirectTo).origin).toBe(it.origin);
    expect(answer.headers.location).toContain(it.origin);
    expect(JSON.stringify(answer.headers["set-cookie"])).not.toMatch(/secure/i);
  }
  for (const path of ["oauth-authorization-server", "oauth-protected-resource"]) {
    const options = { port: it.gateway.port, headers: { host: "evil.example" }, agent: false };
    const request = http.get(`${it.origin}/.well-known/${path}`, options);
    const [answer] = (await once(request, "response")) as [http.IncomingMessage];
    expect((await answer.toArray()).join("")).not.toContain("evil");
  }
});

test("scripts do not see the provider's cookies, and other sites do not send them", async () => {
  const begun = await it.begin(await it.register());
  const { setCookies } = await begun.go(it.authorizeUrl(begun.clientId).url);
  expect(setCookies.length).toBeGreaterThan(0);
  for (const cookie of setCookies) expect(cookie).toMatch(/; samesite=lax; httponly/i);
});
