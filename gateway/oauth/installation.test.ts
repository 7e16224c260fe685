import { afterAll, beforeAll, expect, test } from "vitest";
import { createLog } from "../../services/kit/log.ts";
import { serve } from "../../services/kit/process/server.ts";
import { testKeys } from "../../services/kit/testing/testing.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

const origin = "https://berth.example.com";
let platform: TestPlatform;
let gateway: Awaited<ReturnType<TestPlatform["gateway"]>>;

beforeAll(async () => {
  platform = await testPlatform({}, origin);
  gateway = await platform.gateway({ PUBLIC_ORIGIN: origin });
});
afterAll(() => platform.stop());

/** What an ingress that ends TLS passes on, by plain HTTP. */
const passedOn = (path: string, init?: RequestInit) =>
  fetch(`http://127.0.0.1:${gateway.port}${path}`, {
    redirect: "manual",
    ...init,
    headers: { "x-forwarded-proto": "http", "x-forwarded-host": "evil.example", ...init?.headers },
  });

test("behind an ingress that ends TLS, every address is https and every cookie Secure", async () => {
  const metadata = await (await passedOn("/.well-known/oauth-authorization-server")).json();
  expect(metadata).toMatchObject({ issuer: origin, token_endpoint: `${origin}/oauth2/token` });
  const registered = await passedOn("/v1/oauth/register", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ client_name: "An app", redirect_uris: ["https://app.example/callback"] }),
  });
  const { client_id } = (await registered.json()) as { client_id: string };
  const query = new URLSearchParams({
    client_id,
    response_type: "code",
    redirect_uri: "https://app.example/callback",
    code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    code_challenge_method: "S256",
  });
  const begun = await passedOn(`/oauth2/auth?${query}`);
  expect(begun.headers.get("location")).toMatch(`${origin}/oauth/login?login_challenge=`);
  const cookies = begun.headers.getSetCookie();
  expect(cookies.length).toBeGreaterThan(0);
  for (const cookie of cookies) expect(cookie).toMatch(/; secure/i);
});

test("what a replica of identity that an upgrade has not reached does not know is 503, to be tried again", async () => {
  const old = await serve({
    ...{ host: "127.0.0.1", port: 0, grpcPort: 0, keys: testKeys, log: createLog("test", "silent") },
    ready: async () => true,
    routes: () => {},
  });
  const before = await platform.gateway({ IDENTITY_URL: `http://127.0.0.1:${old.port}` });
  const asked = (path: string, init?: RequestInit) =>
    fetch(`http://127.0.0.1:${before.port}${path}`, { redirect: "manual", ...init });
  const json = { "content-type": "application/json" };
  const answers = await Promise.all([
    asked("/v1/oauth/login-request?challenge=c"),
    asked("/v1/oauth/register", {
      method: "POST",
      headers: json,
      body: '{"redirect_uris":["http://localhost"]}',
    }),
    asked("/oauth2/auth?client_id=c"),
    asked("/oauth2/token", { method: "POST", body: new URLSearchParams({ grant_type: "refresh_token" }) }),
    asked("/.well-known/jwks.json"),
  ]);
  const retryAfter = (answer: Response) => answer.headers.get("retry-after");
  expect(answers.map((answer) => [answer.status, retryAfter(answer)])).toEqual(answers.map(() => [503, "1"]));
  await before.stop();
  await old.stop();
});
