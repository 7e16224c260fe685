import { afterAll, beforeAll, expect, test } from "vitest";
import { refusal } from "../../../support/door.ts";
import { challengeOf, type OauthPlatform, oauthPlatform } from "../../../support/oauth/platform.ts";

let it: OauthPlatform;
let clientId: string;
beforeAll(async () => {
  it = await oauthPlatform();
  clientId = await it.register();
});
afterAll(() => it?.stop());

const EXPIRED = "422 challenge_expired";

/** What every endpoint that takes a challenge answers to this one. */
async function answersTo(challenge: string) {
  const body = (name: string) => ({ [name]: challenge });
  const consent = { ...body("consentChallenge"), accountId: it.accountId, role: "reader" };
  const anonymous = { token: "" };
  return {
    login: [
      refusal(await it.call("GET", `/oauth/login-request?challenge=${challenge}`, undefined, anonymous)),
      refusal(await it.call("POST", "/oauth/login/complete", body("loginChallenge"))),
      refusal(await it.call("POST", "/oauth/login/reject", body("loginChallenge"), anonymous)),
    ],
    consent: [
      refusal(await it.call("GET", `/oauth/consent-request?challenge=${challenge}`)),
      refusal(await it.call("POST", "/oauth/consent/complete", consent)),
      refusal(await it.call("POST", "/oauth/consent/reject", body("consentChallenge"), anonymous)),
    ],
  };
}

const thrice = [EXPIRED, EXPIRED, EXPIRED];

test("a challenge that nobody issued is refused everywhere", async () => {
  expect(await answersTo("a-guess")).toEqual({ login: thrice, consent: thrice });
});

test("a challenge of the one kind is refused where the other is asked for, and still works in its place", async () => {
  const begun = await it.begin(clientId);
  expect((await answersTo(begun.loginChallenge)).consent).toEqual(thrice);
  const again = await it.begin(clientId);
  const consentChallenge = await it.signIn(again);
  const swapped = { loginChallenge: consentChallenge };
  expect(refusal(await it.call("POST", "/oauth/login/complete", swapped))).toBe(EXPIRED);
  expect((await it.call("GET", `/oauth/consent-request?challenge=${consentChallenge}`)).status).toBe(200);
});

test("a challenge that was answered is refused everywhere, also before the browser goes on", async () => {
  const begun = await it.begin(clientId);
  const { body } = await it.complete("login", { loginChallenge: begun.loginChallenge });
  expect(await answersTo(begun.loginChallenge)).toEqual({ login: thrice, consent: thrice });
  const consentChallenge = challengeOf((await begun.go(body.redirectTo)).location, "consent");
  const denied = await it.call("POST", "/oauth/consent/reject", { consentChallenge }, { token: "" });
  expect(denied.status).toBe(200);
  expect(await answersTo(consentChallenge)).toEqual({ login: thrice, consent: thrice });
  const back = new URL((await begun.go(denied.body.redirectTo as string)).location!);
  expect(Object.fromEntries(back.searchParams)).toMatchObject({
    error: "access_denied",
    state: "the-clients-state",
    iss: it.origin,
  });
  expect(await answersTo(consentChallenge)).toEqual({ login: thrice, consent: thrice });
});

test("of answers that are sent at once one counts, and there is one grant", async () => {
  const owner = await it.member("owner");
  const begun = await it.begin(clientId);
  const logins = await Promise.all(
    [1, 2, 3].map(() => it.complete("login", { loginChallenge: begun.loginChallenge }, owner)),
  );
  expect(logins.map(({ status }) => status).sort()).toEqual([200, 422, 422]);
  const { redirectTo } = logins.find(({ status }) => status === 200)!.body;
  const consentChallenge = challengeOf((await begun.go(redirectTo)).location, "consent");
  const body = { consentChallenge, accountId: it.accountId, role: "reader" };
  const consents = await Promise.all([1, 2, 3].map(() => it.complete("consent", body, owner)));
  expect(consents.map(({ status }) => status).sort()).toEqual([200, 422, 422]);
  const made = "select from oauth_grants where user_id = $1";
  expect((await it.pool.query(made, [owner.userId])).rowCount).toBe(1);
});

test("a challenge is refused 600 s after it was issued", async () => {
  const [waiting, begun] = [await it.begin(clientId), await it.begin(clientId)];
  const consentChallenge = await it.signIn(begun);
  it.clock.aheadMs += 601_000;
  try {
    expect(await answersTo(waiting.loginChallenge)).toEqual({ login: thrice, consent: thrice });
    expect(await answersTo(consentChallenge)).toEqual({ login: thrice, consent: thrice });
    expect((await it.begin(clientId)).loginChallenge).toBeTruthy();
  } finally {
    it.clock.aheadMs = 0;
  }
});

test("a consent is given by the user who signed in, and by nobody else", async () => {
  const begun = await it.begin(clientId);
  const [user, other] = [await it.member("editor"), await it.member("owner")];
  const consentChallenge = await it.signIn(begun, user);
  const view = `/oauth/consent-request?challenge=${consentChallenge}`;
  const body = { consentChallenge, accountId: it.accountId, role: "reader" };
  expect(refusal(await it.call("GET", view, undefined, other))).toBe("403 subject_mismatch");
  expect(refusal(await it.call("POST", "/oauth/consent/complete", body, other))).toBe("403 subject_mismatch");
  expect((await it.complete("consent", body, user)).status).toBe(200);
});

test("an application that knows its user by an ID token gets that one back, and nobody else", async () => {
  const user = await it.member("reader");
  const params = { scope: "openid platform:read" };
  const first = await it.letIn({ ...user, role: "reader", params });
  const hint = { params: { ...params, id_token_hint: first.body.id_token } };
  const begun = await it.begin(first.clientId, hint);
  const { loginChallenge } = begun;
  const refused = await it.call("POST", "/oauth/login/complete", { loginChallenge });
  expect(refusal(refused)).toBe("403 subject_mismatch");
  expect((await it.allow(begun, { ...user, role: "reader" })).searchParams.get("code")).toBeTruthy();
  const forged = { ...params, id_token_hint: `${first.body.id_token!.slice(0, -8)}AAAAAAAA` };
  const answer = new URL((await begun.go(it.authorizeUrl(first.clientId, forged).url)).location!);
  expect(answer.searchParams.get("error")).toBe("invalid_request");
});

test("a consent that is not the user's to give is refused, and can be given as it should be", async () => {
  const user = await it.member("reader");
  const strange = await it.must<{ id: string }>("POST", "/accounts", {
    handle: `h${Date.now().toString(36)}`,
  });
  const begun = await it.begin(clientId);
  const consentChallenge = await it.signIn(begun, user);
  const complete = async (accountId: string, role: string) =>
    refusal(await it.call("POST", "/oauth/consent/complete", { consentChallenge, accountId, role }, user));
  expect(await complete(it.accountId, "editor")).toBe("403 role_not_grantable");
  expect(await complete(strange.id, "reader")).toBe("403 not_a_member");
  expect(await complete("acc_unknown", "reader")).toBe("403 not_a_member");
  expect(await complete(it.accountId, "owner")).toBe("422 invalid_choice");
  expect(await it.grants(user.token)).toEqual([]);
  expect(await complete(it.accountId, "reader")).toBe("200 ");
});
