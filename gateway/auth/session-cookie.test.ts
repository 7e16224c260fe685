import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeToken } from "../../services/kit/crypto/bearer-token.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { bringIn } from "../../test/support/door.ts";
import { refusalOf } from "../testing/api-client.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

let platform: TestPlatform;
let one: Awaited<ReturnType<TestPlatform["gateway"]>>;
let other: typeof one;
let A: string;
let stream: string;

beforeAll(async () => {
  platform = await testPlatform({
    catalog: { listProjects: () => ({}), createProject: () => ({ id: "prj_1" }) },
    deployments: {
      async *followLogs(_request, ctx) {
        yield {};
        await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
      },
    },
  });
  [one, other] = await Promise.all([
    platform.gateway({ CONSOLE: "on", STREAM_HEARTBEAT_SECONDS: "1" }),
    platform.gateway(),
  ]);
  const accounts = await one.call("GET", "/accounts");
  A = `/accounts/${(accounts.body.data as { id: string }[])[0]!.id}`;
  const id = (prefix: string) => `${prefix}_${"0".repeat(26)}`;
  stream = `${A}/projects/${id("prj")}/environments/${id("env")}/services/web/logs`;
});

afterAll(() => platform.stop());

/** What a browser sends of the console's requests. */
const FROM_CONSOLE = { "sec-fetch-site": "same-origin", "berth-console": "1" };
const cookie = (token: string) => ({ cookie: `theme=dark; berth_session=${token}; other=1` });

type Sent = { method?: string; headers?: Record<string, string>; body?: unknown; at?: typeof one };
const send = (path: string, { method = "GET", headers = {}, body, at = one }: Sent) =>
  at.call(method, path, body, { token: "", headers });

describe("a request of the console", () => {
  test("acts for the user of the session, as with the session's token: same roles, same limits", async () => {
    const reader = await bringIn(one.call, A, "reader");
    const headers = { ...FROM_CONSOLE, ...cookie(reader.token) };
    const me = await send("/me", { headers });
    expect([me.status, me.body.email]).toEqual([200, reader.email]);
    expect((await send(`${A}/projects`, { headers })).status).toBe(200);
    const refused = await send(`${A}/projects`, { method: "POST", headers, body: { name: "x" } });
    expect([refusalOf(refused), refused.body.error.requiredRole]).toEqual(["403 forbidden", "editor"]);

    const editor = await bringIn(one.call, A, "editor");
    const made = await send(`${A}/projects`, {
      method: "POST",
      headers: { ...FROM_CONSOLE, ...cookie(editor.token) },
      body: { name: "x" },
    });
    expect(made.status).toBe(201);
  });

  test("counts against the user's limits, together with their tokens", async () => {
    const limited = await platform.gateway({ CONSOLE: "on", RATE_LIMITS: "on", RATE_LIMIT_READS: "3" });
    const { token } = await bringIn(one.call, A, "reader");
    const headers = { ...FROM_CONSOLE, ...cookie(token) };
    expect((await limited.call("GET", "/me", undefined, { token })).status).toBe(200);
    const statuses: number[] = [];
    for (let n = 0; n < 3; n++) statuses.push((await send("/me", { headers, at: limited })).status);
    expect(statuses).toEqual([200, 200, 429]);
    await limited.stop();
  });

  test("with a token in its header is the token's, whatever the cookie says", async () => {
    const { token } = await bringIn(one.call, A, "reader");
    const withToken = { ...FROM_CONSOLE, ...cookie(token), authorization: `Bearer ${makeToken("pat")}` };
    expect(refusalOf(await send("/me", { headers: withToken }))).toBe("401 unauthenticated");
    const scheme = { ...FROM_CONSOLE, ...cookie(token), authorization: "Basic b3duZXI6cHc=" };
    expect(refusalOf(await send("/me", { headers: scheme }))).toBe("401 unauthenticated");
  });

  test("is refused where the installation has no console", async () => {
    const { token } = await bringIn(one.call, A, "owner");
    const headers = { ...FROM_CONSOLE, ...cookie(token) };
    expect(refusalOf(await send("/me", { headers, at: other }))).toBe("401 unauthenticated");
    expect((await fetch(`${other.origin}/console`)).status).toBe(404);
  });
});

describe("a session's cookie alone is nothing to the API", () => {
  test.each<[string, Record<string, string>]>([
    ["without the console's header", { "sec-fetch-site": "same-origin" }],
    ["with another value of it", { "sec-fetch-site": "same-origin", "berth-console": "true" }],
    ["from another site", { "sec-fetch-site": "cross-site", "berth-console": "1" }],
    ["from an app below the same domain", { "sec-fetch-site": "same-site", "berth-console": "1" }],
    ["of a navigation that somebody typed", { "sec-fetch-site": "none", "berth-console": "1" }],
    ["from a browser that does not say where it comes from", { "berth-console": "1" }],
    ["with both said twice", { "sec-fetch-site": "same-origin, same-origin", "berth-console": "1" }],
  ])("%s", async (_name, headers) => {
    const { token } = await bringIn(one.call, A, "owner");
    const sent = { ...headers, ...cookie(token) };
    expect(refusalOf(await send("/me", { headers: sent }))).toBe("401 unauthenticated");
    const write = { method: "POST", headers: sent, body: { name: "stolen" } };
    expect(refusalOf(await send(`${A}/projects`, write))).toBe("401 unauthenticated");
    const events = { ...sent, accept: "text/event-stream" };
    expect(refusalOf(await send(stream, { headers: events }))).toBe("401 unauthenticated");
  });

  test("a form of another site changes nothing, whichever type it has", async () => {
    const { token } = await bringIn(one.call, A, "owner");
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
      const headers = { "sec-fetch-site": "cross-site", "content-type": type, ...cookie(token) };
      const answer = await send("/me/tokens", { method: "POST", headers, body: '{"name":"stolen"}' });
      expect([type, answer.status]).toEqual([type, 401]);
    }
    const tokens = await one.call("GET", "/me/tokens", undefined, { token });
    expect(tokens.body.data).toEqual([]);
  });

  test("no script of another origin is allowed to send it: preflights allow no credentials", async () => {
    const preflight = await fetch(`${one.baseUrl}/me`, {
      method: "OPTIONS",
      headers: {
        origin: "https://evil.example",
        "access-control-request-method": "GET",
        "access-control-request-headers": "berth-console",
      },
    });
    expect(preflight.headers.get("access-control-allow-origin")).toBe("*");
    expect(preflight.headers.has("access-control-allow-credentials")).toBe(false);
    const { token } = await bringIn(one.call, A, "reader");
    const headers = { ...FROM_CONSOLE, ...cookie(token), origin: one.origin };
    const answer = await send("/me", { headers });
    expect(answer.headers.has("access-control-allow-credentials")).toBe(false);
    expect(answer.headers.get("cache-control")).toMatch(/no-store|private/);
  });

  test.each(["pat", "ref"] as const)("a token of the kind %s is no session", async (kind) => {
    const made = await one.call("POST", "/me/tokens", { name: "t" });
    const token = kind === "pat" ? (made.body.token as string) : makeToken("pat");
    const headers = { ...FROM_CONSOLE, ...cookie(token) };
    expect(refusalOf(await send("/me", { headers }))).toBe("401 unauthenticated");
  });

  test("the tools of MCP take no session", async () => {
    const { token } = await bringIn(one.call, A, "owner");
    const answer = await fetch(`${one.origin}/mcp`, {
      method: "POST",
      headers: {
        ...FROM_CONSOLE,
        ...cookie(token),
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
    });
    expect(answer.status).toBe(401);
  });
});

describe("over https", () => {
  test("only a cookie that is bound to this host is a session: an app below the domain can set no other", async () => {
    const secure = await platform.gateway({ CONSOLE: "on", PUBLIC_ORIGIN: "https://berth.example.com" });
    const { token } = await bringIn(one.call, A, "reader");
    const at = { ...secure, baseUrl: `http://127.0.0.1:${secure.port}/v1` };
    const get = (headers: Record<string, string>) =>
      fetch(`${at.baseUrl}/me`, { headers: { ...FROM_CONSOLE, ...headers } }).then(({ status }) => status);
    expect(await get({ cookie: `berth_session=${token}` })).toBe(401);
    expect(await get({ cookie: `__Host-berth_session=${token}` })).toBe(200);
    await secure.stop();
  });
});

describe("a session that ended", () => {
  test("is refused at once after signing out, and its open streams end", async () => {
    const { token } = await bringIn(one.call, A, "reader");
    const headers = { ...FROM_CONSOLE, ...cookie(token) };
    const followed = await fetch(one.baseUrl + stream, {
      headers: { ...headers, accept: "text/event-stream" },
    });
    expect(followed.status).toBe(200);
    const rest = followed.text();
    const out = await send("/sessions", { method: "DELETE", headers });
    expect(out.status).toBe(204);
    expect(await rest).toMatch(/event: problem\n.*unauthenticated/);
    expect(refusalOf(await send("/me", { headers }))).toBe("401 unauthenticated");
  });

  test("is refused when it was ended elsewhere", async () => {
    const { email, password, token } = await bringIn(one.call, A, "reader");
    const headers = { ...FROM_CONSOLE, ...cookie(token) };
    const elsewhere = await one.call("POST", "/sessions", { email, password }, { token: "" });
    const sessions = await send("/me/sessions", { headers });
    const { id } = (sessions.body.data as { id: string; current?: boolean }[]).at(-1)!;
    await one.call("DELETE", `/me/sessions/${id}`, undefined, { token: elsewhere.body.token as string });
    await eventually("the session is over", async () => (await send("/me", { headers })).status === 401);
  });
});
