import { createServer } from "node:http";
import * as client from "@modelcontextprotocol/client";
import * as sdk from "@modelcontextprotocol/sdk/client/auth.js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool } from "../../services/kit/postgres/db.ts";
import { freePort } from "../../services/kit/process/free-port.ts";
import { listen } from "../../services/kit/process/server.ts";
import { connectApp } from "../../test/support/oauth/application.ts";
import { refusalOf } from "../testing/api-client.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

let platform: TestPlatform;
let origin: string;
let gateway: Awaited<ReturnType<TestPlatform["gateway"]>>;
let accountId: string;
const log: string[] = [];
/** What a collector of traces received. */
const spans: string[] = [];
const collector = createServer(async (req, res) => {
  for await (const chunk of req) spans.push(String(chunk));
  res.end("{}");
});

beforeAll(async () => {
  const collectorPort = await listen(collector, 0, "127.0.0.1");
  const port = await freePort();
  origin = `http://127.0.0.1:${port}`;
  platform = await testPlatform({ catalog: { createProject: () => ({}) } }, origin);
  const traces = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collectorPort}` };
  gateway = await platform.gateway({ PORT: String(port), PUBLIC_ORIGIN: origin, ...traces }, log);
  const accounts = await gateway.call("GET", "/accounts");
  accountId = (accounts.body.data as { id: string }[])[0]!.id;
});

afterAll(async () => {
  await platform.stop();
  collector.close();
});

const connect = (role: "reader" | "editor") =>
  connectApp({ origin, call: gateway.call }, { accountId, role });

test("a machine whose role is too low is told by 403 that an editor's consent would help", async () => {
  const { accessToken: token } = await connect("reader");
  const send = (method: string, path: string, body?: object) =>
    fetch(`${origin}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
  const refused = await send("POST", `/accounts/${accountId}/projects`, { name: "x" });
  expect(refused.status).toBe(403);
  for (const { extractWWWAuthenticateParams: read } of [sdk, client])
    expect(read(refused)).toMatchObject({
      error: "insufficient_scope",
      scope: "platform:write",
      resourceMetadataUrl: new URL(`${origin}/.well-known/oauth-protected-resource/v1`),
    });
  // No consent reaches so far: a client that asked for one would ask for ever.
  const beyond = [
    await send("GET", `/accounts/${accountId}/audit-events`),
    await send("GET", "/accounts/acc_other/projects"),
    await send("GET", "/me/mcp-grants"),
  ];
  expect(beyond.map(({ status }) => status)).toEqual([403, 403, 403]);
  expect(beyond.map(({ headers }) => headers.has("www-authenticate"))).toEqual([false, false, false]);
});

test("a user's token with a low role is a plain 403", async () => {
  const made = await gateway.call("POST", "/me/tokens", { name: "t", roleCap: "reader" });
  const options = { token: String(made.body.token) };
  const refused = await gateway.call("POST", `/accounts/${accountId}/projects`, { name: "x" }, options);
  expect(refusalOf(refused)).toBe("403 forbidden");
  expect(refused.headers.has("www-authenticate")).toBe(false);
});

test("a token that ended since the gateway asked about it is an invalid one", async () => {
  const made = await gateway.call("POST", "/me/tokens", { name: "t" });
  const ask = () => gateway.call("GET", "/me/mcp-grants", undefined, { token: String(made.body.token) });
  expect((await ask()).status).toBe(200);
  const pool = createPool(platform.database.url("identity"));
  await pool.query("update tokens set revoked_at = now() where id = $1", [made.body.id]);
  await pool.end();
  const ended = await ask();
  expect(ended.status).toBe(401);
  expect(sdk.extractWWWAuthenticateParams(new Response("", ended))).toMatchObject({ error: "invalid_token" });
});

test("grants to a client whose id is a URL are listed as an array, and revoked by the encoded id", async () => {
  const app = await connect("editor");
  const clientId = "https://app.example.com:8443/oauth/client.json?v=1&x=ä%2F";
  const pool = createPool(platform.database.url("identity"));
  const listed = async () => {
    const { status, body } = await gateway.call("GET", "/me/mcp-grants");
    return [status, body] as unknown as [number, { clientId: string }[]];
  };
  await pool.query("update oauth_grants set client_id = $1 where client_id = $2", [clientId, app.clientId]);
  await pool.end();
  const [status, before] = await listed();
  expect(status).toBe(200);
  expect(before.map((grant) => grant.clientId)).toContain(clientId);
  const path = `/me/mcp-grants/${encodeURIComponent(clientId)}`;
  expect((await gateway.call("DELETE", path)).status).toBe(204);
  const [, after] = await listed();
  expect(after.map((grant) => grant.clientId)).not.toContain(clientId);
  expect((await gateway.call("DELETE", path)).status).toBe(204);
});

test("a user without grants has an empty array", async () => {
  const { body } = await gateway.call("GET", "/me/mcp-grants");
  for (const { clientId } of body as unknown as { clientId: string }[])
    await gateway.call("DELETE", `/me/mcp-grants/${encodeURIComponent(clientId)}`);
  const empty = await gateway.call("GET", "/me/mcp-grants");
  expect([empty.status, empty.text]).toEqual([200, "[]"]);
});

test("no line of the log and no span holds a challenge, a code, a verifier or a token", async () => {
  const app = await connect("reader");
  await app.refresh();
  await gateway.call("GET", `/accounts/${accountId}`, undefined, { token: app.accessToken });
  // It sends the last spans.
  await gateway.stop();
  for (const said of [log.join(""), spans.join("")]) {
    for (const route of ["/oauth2/auth", "/oauth2/token", "/oauth/consent/complete"])
      expect(said).toContain(route);
    for (const secret of [app.accessToken, app.refreshToken]) expect(said).not.toContain(secret);
    expect(said).not.toMatch(/verifier|challenge=|code=|state=/);
  }
});
