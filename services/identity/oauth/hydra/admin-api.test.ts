import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, inject, test } from "vitest";
import { createLog } from "../../../kit/log.ts";
import type { Grant } from "../../grants/sql.ts";
import type { IdentityProvider } from "../port.ts";
import { ProviderUnavailable } from "../port.ts";
import { createHydra } from "./adapter.ts";
import { type FakeAnswer, type FakeHydra, hydraRequest, startFakeHydra } from "./fake-hydra-testing.ts";

const origin = "https://berth.example.com";
const resource = `${origin}/v1`;
const CHALLENGE = "a-challenge-that-nobody-else-sees";
const grant: Grant = { id: "grt_1", userId: "usr_1", clientId: "app", accountId: "acc_1", role: "reader" };
const login = { userId: "usr_1", verifier: "v" };

let fake: FakeHydra;
let provider: IdentityProvider;
const lines: string[] = [];
beforeAll(async () => {
  fake = await startFakeHydra();
  const log = createLog("identity", "debug", (line) => void lines.push(line));
  const settings = { adminUrl: fake.url, origin, resource, accessTokenSeconds: 900, now: Date.now };
  provider = createHydra({ ...settings, log });
});
afterAll(() => fake.close());
beforeEach(() => {
  fake.calls.length = 0;
  lines.length = 0;
});

/** Everything that one asks a provider about a challenge. */
const asked = (): Record<string, () => Promise<unknown>> => ({
  findLogin: () => provider.findLogin(CHALLENGE),
  acceptLogin: () => provider.acceptLogin(CHALLENGE, login),
  findConsent: () => provider.findConsent(CHALLENGE),
  acceptConsent: () => provider.acceptConsent(CHALLENGE, { grant, verifier: "v" }),
  rejectLogin: () => provider.reject("login", CHALLENGE, { verifier: "v" }),
  rejectConsent: () => provider.reject("consent", CHALLENGE, { verifier: "v" }),
});
const names = Object.keys(asked());
const call = (name: string) => asked()[name]!();

/** A Hydra that knows the challenge: version 2.2 and later answer so also when it was used. */
function knows(more: Record<string, unknown> = {}) {
  fake.answer = ({ method, path }) => {
    const kind = path.includes("/login") ? "login" : "consent";
    const subject = kind === "consent" ? "usr_1" : "";
    const found = hydraRequest(origin, { subject, ...more });
    return {
      body: method === "GET" ? found : { redirect_to: `${found.request_url}&${kind}_verifier=one-time` },
    };
  };
}

test.each([
  ["expired, in version 2.2 and later", 401, { error: "request_unauthorized" }],
  ["unknown, or of the other kind", 404, { error: "Not Found" }],
  ["answered before, until version 2.1", 410, { redirect_to: "https://berth.example.com/oauth2/auth" }],
  ["accepted before, until version 2.1", 409, { error: "Conflict" }],
])("a challenge that is %s (%i) is over, whatever is asked", async (_which, status, body) => {
  fake.answer = () => ({ status, body });
  for (const name of names) expect([name, await call(name)]).toEqual([name, undefined]);
  // Known when it was looked at, over when it is answered.
  knows();
  const answer = fake.answer;
  fake.answer = (one) => (one.method === "GET" ? answer(one) : { status, body });
  expect(await call("acceptLogin")).toBeUndefined();
  expect(await call("acceptConsent")).toBeUndefined();
});

test.each<[string, FakeAnswer]>([
  ["a 500", { status: 500, body: { error: "server_error" } }],
  ["a 503 of a proxy", { status: 503, body: "<html>" }],
  ["a redirect", { status: 302, headers: { location: "https://elsewhere.example.com" } }],
  ["a page", { body: "<html>" }],
  ["a 404 of another server", { status: 404, body: "404 page not found" }],
  ["null", { body: "null" }],
  ["a list", { body: [] }],
  ["nothing", { body: "" }],
  ["an endless object", { body: JSON.stringify({ client: "x".repeat(2_000_000) }) }],
  ["a cut connection", "cut"],
])("%s makes the provider unavailable, whatever is asked", async (_which, answer) => {
  fake.answer = () => answer;
  for (const name of names) await expect(call(name), name).rejects.toThrow(ProviderUnavailable);
  const revoked = provider.revoke({ userId: "usr_1", clientId: "app", grantIds: [] });
  await expect(revoked).rejects.toThrow(ProviderUnavailable);
});

test("a Hydra that does not answer makes the provider unavailable, and the log says so once, without secrets", async () => {
  knows();
  await provider.findLogin(CHALLENGE);
  lines.length = 0;
  fake.answer = () => "hang";
  const hanging = [...names.map(call), provider.verifyAccessToken("ory_at_a-secret-token")];
  for (const { status } of await Promise.allSettled(hanging)) expect(status).toBe("rejected");
  await expect(provider.findLogin(CHALLENGE)).rejects.toThrow(ProviderUnavailable);
  expect(lines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual([
    "Ory Hydra does not answer as it should",
  ]);
  knows();
  await provider.findLogin(CHALLENGE);
  expect(lines).toHaveLength(2);
  expect(lines.join()).not.toMatch(/a-challenge|ory_at_|one-time/);
});

test("every answer is either accepted or makes the provider unavailable", async () => {
  const json = fc.jsonValue({ maxDepth: 3 });
  const members = [
    "client",
    "client_id",
    "request_url",
    "redirect_to",
    "requested_scope",
    "subject",
    "active",
    "aud",
  ];
  const odd = fc.dictionary(
    fc.constantFrom(...members, "exp", "ext", "requested_access_token_audience"),
    json,
  );
  const answers = fc.record({ odd, whole: fc.boolean(), status: fc.constantFrom(200, 400, 401, 404) });
  await fc.assert(
    fc.asyncProperty(answers, async ({ odd, whole, status }) => {
      fake.answer = () => ({ status, body: whole ? hydraRequest(origin, odd) : odd });
      for (const ask of [...names.map((name) => () => call(name)), () => provider.verifyAccessToken("t")])
        await ask().catch((error) => expect(error).toBeInstanceOf(ProviderUnavailable));
    }),
    { seed: inject("seed"), numRuns: 30 },
  );
});

test("a login that expects another user is not accepted, as Hydra would silently start over", async () => {
  knows({ subject: "usr_2", skip: true });
  expect(await provider.acceptLogin(CHALLENGE, login)).toBeUndefined();
  expect(await provider.acceptConsent(CHALLENGE, { grant, verifier: "v" })).toBeUndefined();
  expect(fake.calls.map(({ method }) => method)).toEqual(["GET", "GET"]);
});

test("a consent without a user cannot be given", async () => {
  knows({ subject: "" });
  expect(await provider.acceptConsent(CHALLENGE, { grant, verifier: "v" })).toBeUndefined();
});

test.each([
  ["without a verifier", `${origin}/oauth2/auth?prompt=login`],
  ["to another origin", "https://elsewhere.example.com/oauth2/auth?login_verifier=one-time"],
  ["to a script", "javascript:alert(1)//?login_verifier=one-time"],
])("no browser is sent on by a redirect %s", async (_which, redirect_to) => {
  knows();
  const answer = fake.answer;
  fake.answer = (one) => (one.method === "GET" ? answer(one) : { body: { redirect_to } });
  await expect(provider.acceptLogin(CHALLENGE, login)).rejects.toThrow(ProviderUnavailable);
  expect(lines.join()).not.toContain("one-time");
});

test("challenges of 8 KiB, with any characters, reach Hydra as they are", async () => {
  knows();
  for (const challenge of ["x".repeat(8_192), "a+b/c==&login_challenge=d ü"]) {
    expect(await provider.findLogin(challenge)).toBeDefined();
    expect(fake.calls.at(-1)!.query.getAll("login_challenge")).toEqual([challenge]);
  }
});

test("a consent grants the installation's audience and the role's scopes, with the grant as claims", async () => {
  for (const [role, requested_scope, scopes] of [
    ["reader", ["platform:write", "openid"], ["platform:read"]],
    ["editor", ["platform:write", "openid"], ["platform:read", "platform:write"]],
    ["editor", null, ["platform:read"]],
  ] as const) {
    knows({ requested_scope });
    const redirectTo = await provider.acceptConsent(CHALLENGE, { grant: { ...grant, role }, verifier: "v" });
    expect(redirectTo).toContain("consent_verifier=one-time");
    expect(JSON.parse(fake.calls.at(-1)!.body)).toEqual({
      grant_scope: [...scopes, "offline_access"],
      grant_access_token_audience: [resource],
      remember: false,
      session: { access_token: { account_id: "acc_1", role, grant_id: "grt_1" }, id_token: {} },
    });
  }
});

test("the resource is read from the request's URL; what the client lists as audience counts as well", async () => {
  const url = `${origin}/oauth2/auth?client_id=app&resource=${resource}&resource=${resource}%2F`;
  knows({ request_url: url, requested_access_token_audience: [resource, `${resource}/deeper`] });
  const audience = (await provider.findLogin(CHALLENGE))!.requestedAudience;
  expect(audience).toEqual([resource, `${resource}/`, `${resource}/deeper`]);
  // Deeper is not what tokens here are for.
  await provider.acceptLogin(CHALLENGE, login);
  const { path, body } = fake.calls.at(-1)!;
  expect([path, JSON.parse(body).error]).toEqual([
    "/admin/oauth2/auth/requests/login/reject",
    "invalid_target",
  ]);
});

test("a client is shown with pages only, and by its id where it has no name", async () => {
  const client = { client_id: "app", client_name: null, client_uri: "javascript:alert(1)", logo_uri: 7 };
  knows({ client, request_url: `${origin}/oauth2/auth?redirect_uri=cursor://cursor.mcp/callback` });
  expect((await provider.findLogin(CHALLENGE))!.client).toEqual({
    ...{ clientId: "app", clientName: "app", clientUri: "", logoUri: "", redirectHost: "cursor:" },
  });
});

const exp = Math.floor(Date.now() / 1000) + 900;
const active = { active: true, sub: "usr_1", aud: [resource], exp, token_use: "access_token" };

test.each<[string, Record<string, unknown>, string | undefined]>([
  ["claims below ext", { ext: { grant_id: "grt_1" } }, "grt_1"],
  ["claims at the top level", { grant_id: "grt_1" }, "grt_1"],
  ["claims at the top level beside others below ext", { grant_id: "grt_1", ext: { a: 1 } }, "grt_1"],
  ["the other spelling of the audience", { grant_id: "grt_1", aud: `${resource}/` }, "grt_1"],
  ["no claims", { ext: null }, undefined],
  ["no audience", { grant_id: "grt_1", aud: [] }, undefined],
  ["another audience", { grant_id: "grt_1", aud: [origin] }, undefined],
  ["a refresh token", { grant_id: "grt_1", token_use: "refresh_token" }, undefined],
  ["an end that has passed", { grant_id: "grt_1", exp: 1 }, undefined],
  ["an end that is no number", { grant_id: "grt_1", exp: "later" }, undefined],
  ["active that is no boolean", { grant_id: "grt_1", active: "true" }, undefined],
])(
  "of an introspection with %s the grant is read, if it is a valid access token",
  async (_which, more, id) => {
    fake.answer = () => ({ body: { ...active, ...more } });
    expect((await provider.verifyAccessToken("ory_at_t"))?.grantId).toBe(id);
    expect(fake.calls.at(-1)).toMatchObject({ path: "/admin/oauth2/introspect", body: "token=ory_at_t" });
  },
);

test.each([
  ["for the tools", [`${origin}/mcp`], true],
  ["for the tools and the API", [`${origin}/mcp`, resource], false],
  ["for the API", [resource], false],
])("a token %s is known as such", async (_which, aud, toolsOnly) => {
  fake.answer = () => ({ body: { ...active, grant_id: "grt_1", aud } });
  expect(await provider.verifyAccessToken("ory_at_t")).toMatchObject({ grantId: "grt_1", toolsOnly });
});

test.each([
  ["that Hydra lets have it gets a token for the tools", [resource, `${origin}/mcp`], `${origin}/mcp`],
  ["that registered before gets one for the API, which includes the tools", [resource], resource],
])("a client that asks for the tools %s", async (_which, allowed, granted) => {
  const request_url = `${origin}/oauth2/auth?client_id=app&resource=${origin}/mcp`;
  knows({ request_url, subject: "usr_1", client: { client_id: "app", audience: allowed } });
  const grant = { id: "grt_1", userId: "usr_1", accountId: "acc_1", role: "reader" };
  await provider.acceptConsent(CHALLENGE, { grant: grant as never, verifier: "v" });
  const sent = JSON.parse(fake.calls.at(-1)!.body);
  expect(sent.grant_access_token_audience).toEqual([granted]);
});

test("a token that Hydra calls inactive is not valid", async () => {
  fake.answer = () => ({ body: { active: false } });
  expect(await provider.verifyAccessToken("ory_at_t")).toBeUndefined();
});

test("revoking and deleting name their subject, whatever its id; a missing one is not an error", async () => {
  for (const status of [204, 404]) {
    fake.answer = () => ({ status, body: { error: "not found" } });
    const clientId = "https://app.example.com/client?a=b&subject=other";
    await provider.revoke({ userId: "usr_1", clientId, grantIds: ["grt_1"] });
    expect(Object.fromEntries(fake.calls.at(-1)!.query)).toEqual({ subject: "usr_1", client: clientId });
    await provider.deleteClient("../../other");
    expect(fake.calls.at(-1)!.path).toBe("/admin/clients/..%2F..%2Fother");
  }
});
