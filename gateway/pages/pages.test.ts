import { afterAll, beforeAll, expect, test } from "vitest";
import { bringIn } from "../../test/support/door.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";
import { createVisitor, type Sent } from "../testing/visitor.ts";

let platform: TestPlatform;
let gateway: Awaited<ReturnType<TestPlatform["gateway"]>>;
let accountId: string;
let user: Awaited<ReturnType<typeof bringIn>>;

beforeAll(async () => {
  platform = await testPlatform();
  gateway = await platform.gateway();
  const { body } = await gateway.call("GET", "/accounts");
  accountId = (body.data as { id: string }[])[0]!.id;
  user = await bringIn(gateway.call, `/accounts/${accountId}`, "reader");
});
afterAll(() => platform.stop());

/** A visitor, who signs in as the user unless the fields say who else. */
function visitor() {
  const made = createVisitor(() => gateway.origin);
  return { ...made, signIn: (more: Sent = {}) => made.signIn(user, more) };
}

test("every page forbids to be stored, framed, scripted, and to name itself to other sites", async () => {
  const { go, signIn } = visitor();
  await signIn();
  const paths = ["/signin", "/oauth/error?error=invalid_request", "/oauth/login?login_challenge=x"];
  const own = [
    "/profile",
    "/profile/password",
    "/profile/sessions",
    "/profile/invitations",
    "/connected-applications",
  ];
  for (const path of [
    ...paths,
    ...own,
    "/oauth/consent?consent_challenge=x",
    "/device?user_code=BCDF-GHJK",
  ]) {
    const { headers, text } = await go("GET", path);
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(headers.get("content-security-policy")).toBe(
      "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    );
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    expect(headers.get("x-frame-options")).toBe("DENY");
    expect(headers.get("x-request-id")).toMatch(/./);
    expect(text).not.toMatch(/<script|<style| style=| on\w+=|https?:/);
  }
});

test("who is not signed in signs in first, comes back, and never goes to another origin", async () => {
  const { go, signIn } = visitor();
  const sent = await go("GET", "/profile/sessions?cursor=x");
  expect([sent.status, sent.location]).toEqual([303, "/signin?return_to=%2Fprofile%2Fsessions%3Fcursor%3Dx"]);
  for (const [given, location] of [
    ["/profile/sessions?cursor=x", "/profile/sessions?cursor=x"],
    ["//evil.example", "/profile"],
    ["https://evil.example", "/profile"],
  ]) {
    const signedIn = await signIn({ fields: { return_to: given! } });
    expect([signedIn.status, signedIn.location]).toEqual([303, location]);
  }
});

test("a device is let in on a page: by its code, to an account that is chosen, as a role that may be given", async () => {
  const body = new URLSearchParams({ client_id: "berth-cli" });
  const asked = await fetch(`${gateway.origin}/oauth2/device_authorization`, { method: "POST", body });
  const { user_code, device_code } = (await asked.json()) as Record<string, string>;
  const { go, signIn } = visitor();
  const sent = await go("GET", `/device?user_code=${user_code}`);
  expect([sent.status, sent.location]).toEqual([
    303,
    `/signin?return_to=%2Fdevice%3Fuser_code%3D${user_code}`,
  ]);
  await signIn();
  expect((await go("GET", `/device?user_code=${user_code}`)).text).toContain("This code came with a link.");
  const unknown = await go("POST", "/device", { fields: { user_code: "BCDF-GHJK" } });
  expect([unknown.status, unknown.text.includes("This code is unknown")]).toEqual([422, true]);
  const fields = { user_code: user_code!.toLowerCase() };
  const shown = await go("POST", "/device", { fields });
  expect([shown.status, shown.text.includes(user_code!), shown.text.includes("127.0.0.1")]).toEqual([
    200,
    true,
    true,
  ]);
  const allow = { ...fields, decision: "allow", role: "editor" };
  const unchosen = await go("POST", "/device", { fields: allow });
  expect([unchosen.status, unchosen.text.includes("Choose the account")]).toEqual([422, true]);
  const above = await go("POST", "/device", { fields: { ...allow, account_id: accountId } });
  expect([above.status, above.text.includes("cannot grant editor")]).toEqual([403, true]);
  const given = await go("POST", "/device", { fields: { ...allow, account_id: accountId, role: "reader" } });
  expect([given.status, given.text.includes("Access granted")]).toEqual([200, true]);
  const late = await go("POST", "/device", { fields: { ...fields, decision: "deny" } });
  expect(late.status).toBe(422);
  const poll = { grant_type: "urn:ietf:params:oauth:grant-type:device_code", client_id: "berth-cli" };
  const form = new URLSearchParams({ ...poll, device_code: device_code! });
  expect((await fetch(`${gateway.origin}/oauth2/token`, { method: "POST", body: form })).status).toBe(200);
});

test("a wrong password is a sentence, and the e-mail stays filled in", async () => {
  const { cookies, signIn } = visitor();
  const refused = await signIn({ fields: { password: "not-the-password" } });
  expect(refused.status).toBe(422);
  expect(refused.text).toContain("The e-mail or the password is wrong.");
  expect(refused.text).toContain(`value="${user.email}"`);
  expect(refused.text).not.toContain("not-the-password");
  expect([...cookies.keys()]).toEqual(["berth_form"]);
});

test("the cookie is for pages alone: the API does not accept it", async () => {
  const { cookies, signIn } = visitor();
  await signIn();
  const cookie = `berth_session=${cookies.get("berth_session")}`;
  for (const method of ["GET", "PUT", "DELETE"] as const) {
    const path = { GET: "/me", PUT: "/me/password", DELETE: "/sessions" }[method];
    const answer = await gateway.call(method, path, undefined, { token: "", headers: { cookie } });
    expect(answer.status).toBe(401);
  }
});

test("nobody else can send a form: not without its mark, nor with another browser's, nor from another site", async () => {
  const victim = visitor();
  await victim.signIn();
  const attacker = visitor();
  await attacker.signIn();
  await attacker.go("GET", "/profile/password");
  await victim.go("GET", "/profile/password");
  const change = { current: user.password, new: "somebody-elses-choice" };
  const forged: Sent[] = [
    { fields: { ...change, form_mark: "" } },
    { fields: { ...change, form_mark: attacker.mark() } },
    { fields: change, headers: { "sec-fetch-site": "cross-site", origin: "https://evil.example" } },
    { fields: change, headers: { "sec-fetch-site": "same-site" } },
    { fields: change, headers: { origin: "https://evil.example" } },
  ];
  const right = victim.mark();
  for (const each of forged) {
    const fields = { form_mark: right, ...each.fields };
    const answer = await victim.go("POST", "/profile/password", { ...each, fields });
    expect([answer.status, answer.text.includes("This form is out of date")]).toEqual([403, true]);
  }
  const still = await gateway.call(
    "POST",
    "/sessions",
    { email: user.email, password: user.password },
    { token: "" },
  );
  expect(still.status).toBe(201);
});

test("nobody signs a browser in as somebody else: the sign-in form is protected as well", async () => {
  const { cookies, go } = visitor();
  const fields = { email: user.email, password: user.password };
  expect((await go("POST", "/signin", { fields })).status).toBe(403);
  const attacker = visitor();
  await attacker.go("GET", "/signin");
  await go("GET", "/signin");
  const planted = await go("POST", "/signin", { fields: { ...fields, form_mark: attacker.mark() } });
  expect([planted.status, cookies.has("berth_session")]).toEqual([403, false]);
});

test("signing out ends the session and forgets the cookie; signing in as another ends the one before", async () => {
  const { cookies, go, signIn } = visitor();
  await signIn();
  const first = cookies.get("berth_session")!;
  await signIn();
  const second = cookies.get("berth_session")!;
  const status = async (token: string) => (await gateway.call("GET", "/me", undefined, { token })).status;
  expect([await status(first), await status(second)]).toEqual([401, 200]);
  await go("GET", "/profile");
  const out = await go("POST", "/signout");
  expect([out.status, out.location]).toEqual([303, "/signin?done=signed-out"]);
  expect([await status(second), cookies.has("berth_session")]).toEqual([401, false]);
  expect((await go("GET", "/profile")).status).toBe(303);
});

test("over https the cookies are bound to the host and to encrypted connections", async () => {
  const secure = await platform.gateway({ PUBLIC_ORIGIN: "https://berth.example.com" });
  const { signIn, cookies } = visitor();
  const signedIn = await signIn({ at: `http://127.0.0.1:${secure.port}` });
  const [set] = signedIn.headers.getSetCookie();
  expect(set).toMatch(
    /^__Host-berth_session=berth_ses_\w{36}; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=60\d{4}$/,
  );
  expect([...cookies.keys()]).toEqual(["__Host-berth_form", "__Host-berth_session"]);
});

test("a form that is sent twice, to two gateways, has one effect and one answer", async () => {
  const other = await platform.gateway();
  const twice = async ({ go }: ReturnType<typeof visitor>, path: string, fields: Record<string, string>) => {
    const sent = [gateway, other].map(({ port }) =>
      go("POST", path, { fields, at: `http://127.0.0.1:${port}` }),
    );
    const answers = await Promise.all(sent);
    return answers.map(({ location, headers }) => [location, headers.get("set-cookie")]);
  };
  const own = await bringIn(gateway.call, `/accounts/${accountId}`, "reader");
  const browser = visitor();
  await browser.go("GET", "/signin");
  const signedIn = await twice(browser, "/signin", { email: own.email, password: own.password });
  expect(signedIn).toEqual([["/profile", expect.stringContaining("berth_session=")], signedIn[0]]);
  const { body } = await gateway.call("GET", "/me/sessions", undefined, own);
  expect(body.data).toHaveLength(2);
  await browser.go("GET", "/profile/password");
  const change = { current: own.password, new: "a-longer-second-password" };
  const changed = ["/profile/password?done=changed", null];
  expect(await twice(browser, "/profile/password", change)).toEqual([changed, changed]);
  await browser.go("GET", "/profile/password");
  expect((await browser.go("POST", "/profile/password", { fields: change })).status).toBe(422);
});

test("the limits of the API are those of the pages, by the browser's address", async () => {
  const limited = await platform.gateway({
    RATE_LIMITS: "on",
    RATE_LIMIT_PUBLIC: "3",
    TRUST_PROXY: "loopback",
  });
  const at = `http://127.0.0.1:${limited.port}`;
  const from = (ip: string) => ({ at, headers: { "x-forwarded-for": ip } });
  const { signIn } = visitor();
  const statuses: number[] = [];
  for (let i = 0; i < 5; i++) statuses.push((await signIn(from("203.0.113.1"))).status);
  expect(statuses).toEqual([303, 303, 303, 429, 429]);
  const refused = await signIn(from("203.0.113.1"));
  expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
  expect(refused.text).toContain("Too many requests");
  expect((await signIn(from("203.0.113.2"))).status).toBe(303);
});

test("what cannot be read, and what is too long, is refused with a page", async () => {
  const { go } = visitor();
  const json = await fetch(`${gateway.origin}/signin`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  expect([json.status, json.headers.get("content-type")]).toEqual([415, "text/html; charset=utf-8"]);
  const long = await go("POST", "/signin", { fields: { email: "x".repeat(70_000) } });
  expect([long.status, long.text.includes("could not be read")]).toEqual([413, true]);
});

test("the error page shows errors that it knows, and nothing of what else a link says", async () => {
  const { go } = visitor();
  const said = "Call 555-0100 to keep your account";
  for (const [error, shown] of [
    ["invalid_target", "asked for access to a different server"],
    ["<b>", "could not be connected"],
    ["account_locked", "could not be connected"],
    ["constructor", "could not be connected"],
  ] as const) {
    const { status, text } = await go(
      "GET",
      `/oauth/error?${new URLSearchParams({ error, error_description: said })}`,
    );
    expect([status, text.includes(shown), text.includes("555-0100")]).toEqual([400, true, false]);
    expect(text.includes(error === "<b>" ? "&lt;b&gt;" : `>${error}<`)).toBe(error === "invalid_target");
  }
});

test("while identity is away the pages say so", async () => {
  const away = await platform.gateway({ IDENTITY_URL: "http://127.0.0.1:1" });
  const { go, signIn, cookies } = visitor();
  await signIn();
  const page = await go("GET", "/profile", { at: `http://127.0.0.1:${away.port}` });
  expect([page.status, page.text.includes("not available right now")]).toEqual([503, true]);
  expect(cookies.has("berth_session")).toBe(true);
});

test("pages and an API without a prefix share the origin", async () => {
  const bare = await platform.gateway({ API_PREFIX: "/" });
  const { go, signIn } = visitor();
  const at = `http://127.0.0.1:${bare.port}`;
  expect((await signIn({ at })).location).toBe("/profile");
  expect((await go("GET", "/profile/sessions", { at })).status).toBe(200);
  expect((await bare.call("GET", "/me/sessions", undefined, { token: "" })).status).toBe(401);
});

test("what the payment provider leads back to is for everybody, and asks nothing of the API", async () => {
  for (const path of ["/billing/subscribed", "/billing/not-subscribed", "/billing/portal-closed"]) {
    const { status, text, headers } = await visitor().go("GET", path);
    expect([path, status, headers.get("cache-control")]).toEqual([path, 200, "no-store"]);
    expect(headers.getSetCookie()).toEqual([]);
    expect(text).toMatch(/<h1>[^<]+<\/h1>/);
  }
});
