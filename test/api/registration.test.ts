import { registerClient as registerV2 } from "@modelcontextprotocol/client";
import {
  discoverAuthorizationServerMetadata,
  registerClient as registerV1,
} from "@modelcontextprotocol/sdk/client/auth.js";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { type TestPlatform, testPlatform } from "../../gateway/testing/test-platform.ts";
import { freePort } from "../../services/kit/process/free-port.ts";
import { createRandom } from "../../services/kit/testing/random.ts";

let platform: TestPlatform;
let origin: string;

beforeAll(async () => {
  const port = await freePort();
  origin = `http://127.0.0.1:${port}`;
  platform = await testPlatform({}, origin);
  await platform.gateway({ PORT: String(port), PUBLIC_ORIGIN: origin });
});
afterAll(() => platform?.stop());

const register = (body: string | Buffer) =>
  fetch(`${origin}/v1/oauth/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: body as string,
  });

const clients = {
  "a client that says the least": { redirect_uris: ["http://localhost:3000/callback"] },
  "an editor": {
    client_name: "Editor",
    redirect_uris: ["http://127.0.0.1:33418/", "https://vscode.dev/redirect"],
    grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    application_type: "native",
  },
  "a web application that wants a secret, with empty members": {
    client_name: "Web",
    redirect_uris: ["https://app.example.com/callback"],
    token_endpoint_auth_method: "client_secret_post",
    client_uri: "https://app.example.com",
    logo_uri: "",
    tos_uri: "",
    contacts: [],
    scope: "openid",
  },
  "an application with a scheme of its own": { redirect_uris: ["cursor://anysphere.cursor-mcp/callback"] },
};

test.each(Object.entries(clients))("%s registers with both MCP SDKs", async (_who, clientMetadata) => {
  const metadata = await discoverAuthorizationServerMetadata(origin);
  for (const registerClient of [registerV1, registerV2]) {
    const registered = await registerClient(origin, { metadata: metadata as never, clientMetadata });
    expect(registered.redirect_uris).toEqual(clientMetadata.redirect_uris);
    expect(registered).toMatchObject({ token_endpoint_auth_method: "none" });
    expect(registered.client_secret).toBeUndefined();
  }
});

test("the answer is what RFC 7591 asks for, with nothing that is empty, secret or to manage the client", async () => {
  const sent = { redirect_uris: ["http://127.0.0.1/"], client_uri: "", contacts: null, client_secret: "s" };
  const response = await register(JSON.stringify(sent));
  expect(response.status).toBe(201);
  expect(response.headers.get("content-type")).toContain("application/json");
  expect(response.headers.get("cache-control")).toBe("no-store");
  const { client_id, client_id_issued_at, ...rest } = (await response.json()) as Record<string, unknown>;
  expect(client_id).toMatch(/^[\w-]{22}$/);
  expect(Math.abs(Date.now() / 1000 - (client_id_issued_at as number))).toBeLessThan(300);
  expect(rest).toEqual({
    client_name: "Unnamed client",
    redirect_uris: ["http://127.0.0.1/"],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    application_type: "native",
    scope: "platform:read platform:write offline_access",
  });
});

test.each([
  ["invalid_redirect_uri", '{"redirect_uris": ["http://app.example.com/"]}'],
  ["invalid_redirect_uri", "{}"],
  ["invalid_client_metadata", '{"redirect_uris": ["http://127.0.0.1/"], "grant_types": ["implicit"]}'],
  ["invalid_client_metadata", "nonsense"],
  ["invalid_client_metadata", "[".repeat(16 * 1024)],
])("%s is answered as RFC 7591 says", async (error, body) => {
  const response = await register(body);
  expect([response.status, response.headers.get("cache-control")]).toEqual([400, "no-store"]);
  expect(await response.json()).toEqual({ error, error_description: expect.any(String) });
});

test("clients learn whether they may be known by a document", async () => {
  const announced = async (base: string) => {
    const answer = await fetch(`${base}/.well-known/oauth-authorization-server`);
    return ((await answer.json()) as Record<string, unknown>).client_id_metadata_document_supported;
  };
  expect(await announced(origin)).toBe(true);
  const without = await platform.gateway({ OAUTH_CLIENT_ID_METADATA: "off" });
  expect(await announced(new URL(without.baseUrl).origin)).toBeUndefined();
});

test("whatever bytes arrive, a client is registered or refused as RFC 7591 says", async () => {
  const random = createRandom(inject("seed"));
  const whole = Buffer.from(JSON.stringify(clients["an editor"]));
  const parts = [
    "\\u0000",
    "\\ud800",
    "\u202e",
    "\u0000",
    '"',
    "[",
    "}",
    "null",
    "*",
    "#",
    "@",
    "../",
    "\ufffe",
  ];
  const statuses = new Set<number>();
  for (let n = 0; n < 200; n++) {
    const at = random.below(whole.length);
    const cut = random.of([0, 0, 1, 8]);
    const bytes = [whole.subarray(0, at), Buffer.from(random.of(parts)), whole.subarray(at + cut)];
    const response = await register(Buffer.concat(bytes));
    statuses.add(response.status);
    const answer = (await response.json()) as Record<string, unknown>;
    if (response.status === 201) expect(answer.client_id).toBeDefined();
    else expect(["invalid_redirect_uri", "invalid_client_metadata"]).toContain(answer.error);
  }
  expect([...statuses].sort()).toEqual([201, 400]);
});
