import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../services/kit/process/free-port.ts";
import { listen } from "../../services/kit/process/server.ts";
import { refusalOf } from "../testing/api-client.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

const ORIGIN = "https://berth.example.com";

type Asked = { url: string; headers: IncomingMessage["headers"]; body: string };

let platform: TestPlatform;
let gateway: Awaited<ReturnType<TestPlatform["gateway"]>>;
/** An OAuth provider of the operator's own. */
let provider: ReturnType<typeof createServer>;
let answer: (req: IncomingMessage, res: ServerResponse) => void;
let asked: Asked[] = [];
const log: string[] = [];

beforeAll(async () => {
  platform = await testPlatform();
  provider = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk);
    asked.push({ url: req.url!, headers: req.headers, body: Buffer.concat(chunks).toString() });
    answer(req, res);
  });
  const port = await listen(provider, 0, "127.0.0.1");
  const env = {
    OAUTH_URL: `http://127.0.0.1:${port}`,
    PUBLIC_ORIGIN: ORIGIN,
    TRUST_PROXY: "loopback",
    METRICS_PORT: "0",
  };
  gateway = await platform.gateway(env, log);
});

afterAll(async () => {
  await platform.stop();
  provider.closeAllConnections();
  provider.close();
});

const send = (path: string, init: RequestInit = {}) => {
  asked = [];
  return fetch(`http://127.0.0.1:${gateway.port}${path}`, { redirect: "manual", ...init });
};

const form = (fields: Record<string, string>) => ({ method: "POST", body: new URLSearchParams(fields) });

async function refusal(response: Response) {
  const body = (await response.json()) as { error: { code: string; requestId: string } };
  expect(body.error.requestId).toBe(response.headers.get("x-request-id"));
  return `${response.status} ${body.error.code}`;
}

/** Returns an error as RFC 6749, section 5.2, shapes it. */
async function oauthError(response: Response) {
  const body = (await response.json()) as { error: string; error_description: string };
  expect(Object.keys(body).sort()).toEqual(["error", "error_description"]);
  expect(body.error_description).toMatch(/^[\x20-\x21\x23-\x5b\x5d-\x7e]+\.$/);
  expect(response.headers.get("cache-control")).toBe("no-store");
  return `${response.status} ${body.error}`;
}

test("what a client says of host, scheme and address does not reach the provider, nor do the pages' cookies", async () => {
  answer = (_req, res) =>
    void res.writeHead(303, { location: "https://berth.example.com/oauth/login" }).end();
  const headers = [
    ...["host", "evil.example", "x-forwarded-host", "evil.example", "x-forwarded-proto", "http"],
    ...["x-forwarded-for", "203.0.113.9", "forwarded", "host=evil.example", "origin", "https://evil.example"],
    ...["cookie", "berth_session=s1; hydra=1; __Host-berth_session=s2; berth_form=f; __Host-berth_login=l"],
  ];
  asked = [];
  const status = await new Promise<number>((resolve) => {
    const options = { port: gateway.port, path: "http://evil.example/oauth2/auth?client_id=c", headers };
    httpRequest(options, (res) => resolve(res.resume().statusCode!)).end();
  });
  expect(status).toBe(303);
  const [{ url, headers: got }] = asked as [Asked];
  expect(url).toBe("/oauth2/auth?client_id=c");
  expect(got).toMatchObject({
    host: "berth.example.com",
    "x-forwarded-host": "berth.example.com",
    "x-forwarded-proto": "https",
    "x-forwarded-for": "203.0.113.9",
    cookie: "hydra=1",
  });
  expect(got).not.toHaveProperty("forwarded");
  expect(got).not.toHaveProperty("origin");
});

test("redirects and all cookies of the provider pass, and nothing of it is stored", async () => {
  answer = (_req, res) => {
    const location = "http://127.0.0.1:3000/callback?code=c&state=s";
    const headers = {
      location,
      "set-cookie": ["a=1; Secure", "b=2"],
      "cache-control": "public",
      server: "x",
    };
    res.writeHead(302, headers).end();
  };
  const back = await send("/oauth2/auth/a%2Fb?verifier=v");
  expect(asked[0]?.url).toBe("/oauth2/auth/a%2Fb?verifier=v");
  expect([back.status, back.headers.get("location")]).toEqual([
    302,
    "http://127.0.0.1:3000/callback?code=c&state=s",
  ]);
  expect(back.headers.getSetCookie()).toEqual(["a=1; Secure", "b=2"]);
  expect(back.headers.get("cache-control")).toBe("no-store");
  expect(back.headers.get("referrer-policy")).toBe("no-referrer");
  expect(back.headers.has("server")).toBe(false);
  expect(back.headers.get("x-request-id")).toMatch(/^req_/);
});

test("forms pass as they are, with the client's authentication, and tokens are never stored", async () => {
  answer = (_req, res) => {
    const wrong = { "content-type": "application/json", "www-authenticate": "Basic" };
    res.writeHead(401, { ...wrong, "cache-control": "private" }).end('{"error":"invalid_client"}');
  };
  for (const path of ["/oauth2/token", "/oauth2/revoke"]) {
    const { body } = form({ token: "ä b" });
    const response = await send(path, { method: "POST", body, headers: { authorization: "Basic YTpi" } });
    expect(asked[0]?.body).toBe("token=%C3%A4+b");
    expect(asked[0]?.headers.authorization).toBe("Basic YTpi");
    expect(asked[0]?.headers["content-type"]).toMatch("application/x-www-form-urlencoded");
    expect([response.status, await response.json()]).toEqual([401, { error: "invalid_client" }]);
    expect(response.headers.get("www-authenticate")).toBe("Basic");
    expect(response.headers.get("cache-control")).toBe("no-store");
  }
});

test("a form that is too large, compressed, or sent where only browsers go is refused before the provider", async () => {
  const large = await send("/oauth2/token", form({ x: "x".repeat(65_536) }));
  expect(await oauthError(large)).toBe("413 invalid_request");
  for (const headers of [{ "content-encoding": "gzip" }, { "content-type": "no type" }])
    expect(await oauthError(await send("/oauth2/token", { ...form({ x: "x" }), headers }))).toBe(
      "415 invalid_request",
    );
  const posted = await send("/oauth2/auth", form({ client_id: "c" }));
  expect(await refusal(posted)).toBe("405 method_not_allowed");
  expect(posted.headers.get("allow")).toBe("GET");
  expect(await refusal(await send("/oauth2/token"))).toBe("405 method_not_allowed");
  expect(asked).toEqual([]);
});

test("a NUL character is in no text of OAuth, and no server's fault: it is refused before the provider", async () => {
  for (const path of ["/oauth2/token", "/oauth2/revoke"])
    for (const body of ["client_id=%00", "grant_type=refresh_token&refresh_token=a%00", "client_id=\0"])
      expect(await oauthError(await send(path, { ...form({}), body }))).toBe("400 invalid_request");
  const basic = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString("base64")}` });
  for (const text of ["%00:x", "\0:x"])
    expect(await oauthError(await send("/oauth2/token", { ...form({ x: "x" }), headers: basic(text) }))).toBe(
      "400 invalid_request",
    );
  for (const path of ["/oauth2/auth?client_id=%00", "/oauth2/auth?state=a%00b", "/oauth2/auth/%00"])
    expect(await refusal(await send(path))).toBe("400 malformed_request");
  expect(asked).toEqual([]);
});

test.each([
  ["fails", (res: ServerResponse) => void res.writeHead(500).end("a secret sentence"), "it answered 500"],
  [
    "breaks off",
    (res: ServerResponse) => void res.writeHead(200).write("x", () => res.destroy()),
    "other side closed",
  ],
  ["never answers", () => {}, "timeout"],
  ["never ends its answer", (res: ServerResponse) => void res.writeHead(200).write("x"), "timeout"],
  ["answers without end", (res: ServerResponse) => void res.end("x".repeat(300_000)), "larger than"],
])("a provider that %s is an error of OAuth, with the cause in the log alone", async (_, respond, cause) => {
  answer = (_req, res) => respond(res);
  const id = `r-${Math.random()}`;
  const response = await send("/oauth2/token", { ...form({}), headers: { "x-request-id": id } });
  const text = await response.clone().text();
  expect(await oauthError(response)).toBe("503 temporarily_unavailable");
  expect(response.headers.get("retry-after")).toBe("1");
  expect(text).not.toMatch(/secret|larger|timeout|closed/);
  const lines = log.filter((line) => line.includes(id)).map((line) => JSON.parse(line));
  expect(lines).toMatchObject([
    {
      level: "warn",
      method: "POST",
      route: "/oauth2/token",
      status: 503,
      cause: expect.stringContaining(cause),
    },
  ]);
});

test("a provider that is away is an error of OAuth for applications, and a page for people, at once", async () => {
  const nowhere = `http://127.0.0.1:${await freePort()}`;
  const lonely = await platform.gateway({ OAUTH_URL: nowhere }, log);
  const id = `r-${Math.random()}`;
  const headers = { "x-request-id": id };
  const { method, body } = form({});
  for (const path of ["/oauth2/token", "/oauth2/revoke"]) {
    const response = await fetch(lonely.origin + path, { method, body, headers });
    expect(await oauthError(response)).toBe("503 temporarily_unavailable");
    expect(response.headers.get("retry-after")).toBe("1");
  }
  expect(log.find((line) => line.includes(id))).toMatch(/"identity provider: [^"]*ECONNREFUSED/);
  const shown = await fetch(`${lonely.origin}/oauth2/auth?client_id=c`, {
    headers: { accept: "text/html,application/xhtml+xml" },
  });
  expect([shown.status, shown.headers.get("content-type")]).toEqual([502, "text/html; charset=utf-8"]);
  expect(shown.headers.get("content-security-policy")).toContain("default-src 'none'");
  expect(await shown.text()).toContain("The identity provider does not answer. Try again.");
  const without = await platform.gateway({ IDENTITY_URL: nowhere });
  const token = await fetch(`${without.origin}/oauth2/token`, { method, body });
  expect(await oauthError(token)).toBe("503 temporarily_unavailable");
  expect(token.headers.get("retry-after")).toBe("1");
  const registering = await without.call("POST", "/oauth/register", {}, { token: "" });
  expect(refusalOf(registering)).toBe("503 unavailable");
});

test("a device that an older identity does not know is asked to come again: an upgrade is under way", async () => {
  const older = createServer((req, res) => {
    const known = req.url === "/oauth2/token";
    res.writeHead(known ? 400 : 404, { "content-type": "application/json" });
    res.end(known ? '{"error":"unsupported_grant_type"}' : "");
  });
  const port = await listen(older, 0, "127.0.0.1");
  const beside = await platform.gateway({ IDENTITY_URL: `http://127.0.0.1:${port}` });
  const post = (path: string, fields: Record<string, string>) => fetch(beside.origin + path, form(fields));
  const device = { grant_type: "urn:ietf:params:oauth:grant-type:device_code" };
  for (const answered of [
    await post("/oauth2/device_authorization", {}),
    await post("/oauth2/token", device),
  ]) {
    expect(answered.headers.get("retry-after")).toBe("1");
    expect(await oauthError(answered)).toBe("503 temporarily_unavailable");
  }
  expect(await (await post("/oauth2/token", { grant_type: "password" })).json()).toEqual({
    error: "unsupported_grant_type",
  });
  older.close();
});

test("metrics count by route; no log line holds a query, a form, a cookie or what came back", async () => {
  answer = (_req, res) =>
    void res.writeHead(200, { "set-cookie": "c=marker" }).end('{"access_token":"marker"}');
  await send("/oauth2/auth?code_challenge=marker&login_verifier=marker", { headers: { cookie: "a=marker" } });
  await send("/oauth2/auth/marker?verifier=marker");
  await send("/oauth2/token", form({ code: "marker", code_verifier: "marker" }));
  await send("/oauth2/revoke", form({ token: "marker" }));
  answer = (_req, res) => void res.writeHead(503).end();
  await send("/oauth2/auth?code_challenge=marker");
  const metrics = await (await fetch(`http://127.0.0.1:${gateway.metricsPort}/metrics`)).text();
  for (const route of ["/oauth2/auth", "/oauth2/auth/:uid", "/oauth2/token", "/oauth2/revoke"])
    expect(metrics).toContain(`route="${route}",status="200"`);
  expect(log.filter((line) => line.includes("/oauth2/")).length).toBeGreaterThan(5);
  expect(log.join("")).not.toContain("marker");
});

test("a gateway refuses to start with a provider below a path", async () => {
  const below = platform.gateway({ OAUTH_URL: "http://hydra:4444/oauth" });
  await expect(below).rejects.toThrow(/OAUTH_URL must be an origin/);
});
