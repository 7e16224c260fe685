import { OAuthClientInformationFullSchema } from "@modelcontextprotocol/sdk/shared/auth.js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { refusalOf } from "../testing/api-client.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

let platform: TestPlatform;
let gateway: Awaited<ReturnType<TestPlatform["gateway"]>>;

beforeAll(async () => {
  platform = await testPlatform();
  gateway = await platform.gateway();
});

afterAll(() => platform.stop());

const app = { client_name: "An app", redirect_uris: ["http://127.0.0.1/callback"] };

const register = (body: unknown, headers: Record<string, string> = {}, by = gateway) =>
  by.call("POST", "/oauth/register", body, { token: "", headers });

test("a client is registered without a token, and never stored on the way", async () => {
  const answer = await register(app);
  expect(answer.status).toBe(201);
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
  expect(OAuthClientInformationFullSchema.parse(answer.body)).toMatchObject(app);
  const ignored = await gateway.call("POST", "/oauth/register", app, { token: "nonsense" });
  expect(ignored.status).toBe(201);
});

test.each([
  ["a body that is not JSON", "redirect_uris=x", {}],
  ["a body that is no object", "[]", {}],
  ["no body", "", {}],
  ["a form", "redirect_uris=x", { "content-type": "application/x-www-form-urlencoded" }],
  ["JSON that is said to be text", JSON.stringify(app), { "content-type": "text/plain" }],
  ["what is of no type", JSON.stringify(app), { "content-type": "no type" }],
  ["a compressed body", JSON.stringify(app), { "content-encoding": "gzip" }],
  ["more than 16 KiB", JSON.stringify({ ...app, x: "x".repeat(16 * 1024) }), {}],
])("%s is 400 as RFC 7591 shapes it", async (_, body, headers) => {
  const answer = await register(body, headers);
  expect(answer.status).toBe(400);
  expect(answer.body).toEqual({ error: "invalid_client_metadata", error_description: expect.any(String) });
  expect(answer.headers.get("cache-control")).toBe("no-store");
});

test("a client without a redirect URI is 400 invalid_redirect_uri", async () => {
  const answer = await register({ client_name: "An app" });
  expect([answer.status, answer.body.error]).toEqual([400, "invalid_redirect_uri"]);
});

test("a registered client cannot be read, changed or deleted, nor told from one that is not there", async () => {
  const { body } = await register(app);
  const ids = [
    String(body.client_id),
    "unknown",
    "x".repeat(2_000),
    encodeURIComponent("https://app.example/id"),
  ];
  const answers = await Promise.all(
    ids.flatMap((id) => [
      gateway.call("GET", `/oauth/register/${id}`, undefined, { token: "" }),
      gateway.call("DELETE", `/oauth/register/${id}`),
      gateway.call("PUT", `/oauth/register/${id}`, app),
      gateway.call("PUT", `/oauth/register/${id}`, "no JSON", { headers: { "content-type": "text/plain" } }),
    ]),
  );
  expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
  expect(answers[0]).toMatchObject({
    status: 404,
    body: { error: "invalid_request", error_description: expect.any(String) },
  });
  expect(answers[0]!.headers.get("cache-control")).toBe("no-store");
});

const limited = (extra: Record<string, string>) =>
  platform.gateway({ RATE_LIMITS: "on", TRUST_PROXY: "loopback", ...extra });
const from = (ip: string) => ({ "x-forwarded-for": ip });

test("a network may register so many clients a minute, through all gateways together", async () => {
  const [one, other] = await Promise.all([1, 2].map(() => limited({ RATE_LIMIT_REGISTRATIONS: "2" })));
  const statuses: number[] = [];
  for (const by of [one, one, one]) statuses.push((await register(app, from("2001:db8:1:1::1"), by)).status);
  expect(statuses).toEqual([201, 201, 429]);
  const refused = await register({}, from("2001:db8:1:1:9::9"), one);
  expect(refusalOf(refused)).toBe("429 rate_limited");
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  await expect.poll(async () => (await register({}, from("2001:db8:1:1::1"), other)).status).toBe(429);
  expect((await register(app, from("2001:db8:1:2::1"), one)).status).toBe(201);
});

test("and so many a day", async () => {
  const day = await limited({ RATE_LIMIT_REGISTRATIONS_DAILY: "2" });
  const statuses: number[] = [];
  for (let i = 0; i < 3; i++) statuses.push((await register(app, from("203.0.113.7"), day)).status);
  expect(statuses).toEqual([201, 201, 429]);
  const refused = await register(app, from("203.0.113.7"), day);
  expect(refused.body.error.message).toContain("2 a day");
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(3_600);
  expect(refused.headers.get("ratelimit-limit")).toBe("2");
});

test("so are token requests and what users answer, each by its own limit", async () => {
  const few = await limited({ RATE_LIMIT_TOKENS: "2", RATE_LIMIT_DECISIONS: "2" });
  const token = (ip: string) =>
    fetch(`${few.origin}/oauth2/token`, { method: "POST", body: new URLSearchParams(), headers: from(ip) });
  const answers = [await token("198.51.100.1"), await token("198.51.100.1"), await token("198.51.100.1")];
  expect(answers.map(({ status }) => status)).toEqual([400, 400, 429]);
  expect(answers[2]!.headers.get("retry-after")).toMatch(/^\d+$/);
  expect(await answers[2]!.json()).toMatchObject({ error: "temporarily_unavailable" });
  expect((await token("198.51.100.2")).status).toBe(400);

  const reject = (ip: string) =>
    few.call("POST", "/oauth/login/reject", { loginChallenge: "x" }, { token: "", headers: from(ip) });
  const rejected = [await reject("198.51.100.1"), await reject("198.51.100.1"), await reject("198.51.100.1")];
  expect(rejected.map(refusalOf)).toEqual([
    "422 challenge_expired",
    "422 challenge_expired",
    "429 rate_limited",
  ]);

  // By user, whichever of his tokens and addresses he uses.
  const made = await few.call("POST", "/me/tokens", { name: "t" });
  const complete = async (by: string, ip: string) => {
    const options = { token: by, headers: from(ip) };
    return refusalOf(await few.call("POST", "/oauth/consent/complete", {}, options));
  };
  const tokens = [platform.ownerToken, String(made.body.token), platform.ownerToken];
  const completed = [];
  for (const [at, by] of tokens.entries()) completed.push(await complete(by, `198.51.100.${10 + at}`));
  expect(completed.at(-1)).toBe("429 rate_limited");
  expect(completed.slice(0, 2).every((said) => said.startsWith("422"))).toBe(true);
});
