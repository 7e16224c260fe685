import * as client from "@modelcontextprotocol/client";
import * as sdk from "@modelcontextprotocol/sdk/client/auth.js";
import * as shapes from "@modelcontextprotocol/sdk/shared/auth.js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../services/kit/process/free-port.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

let platform: TestPlatform;
let origin: string;
let external: string;

/** A gateway at an origin of its own. */
async function gatewayAt(extra: Record<string, string> = {}): Promise<string> {
  const port = await freePort();
  const at = `http://127.0.0.1:${port}`;
  await platform.gateway({ PORT: String(port), PUBLIC_ORIGIN: at, ...extra });
  return at;
}

beforeAll(async () => {
  platform = await testPlatform();
  origin = await gatewayAt();
  external = await gatewayAt({ OAUTH_URL: "http://127.0.0.1:1" });
});

afterAll(() => platform.stop());

const DOCUMENTS = [
  "/.well-known/oauth-authorization-server",
  "/.well-known/openid-configuration",
  "/.well-known/oauth-protected-resource",
  "/.well-known/oauth-protected-resource/v1",
];

const read = async (url: string) => (await fetch(url)).json() as Promise<Record<string, unknown>>;

describe.each([
  ["the embedded provider", () => origin, true],
  ["a provider of the operator's", () => external, false],
])("with %s", (_, at, embedded) => {
  test("MCP clients find the server from the URL of the API alone", async () => {
    for (const { discoverOAuthServerInfo } of [sdk, client]) {
      const found = await discoverOAuthServerInfo(`${at()}/v1/me`);
      expect(found.resourceMetadata).toMatchObject({ resource: `${at()}/v1`, authorization_servers: [at()] });
      expect(found.authorizationServerMetadata).toMatchObject({
        issuer: at(),
        authorization_endpoint: `${at()}/oauth2/auth`,
        token_endpoint: `${at()}/oauth2/token`,
        registration_endpoint: `${at()}/v1/oauth/register`,
        code_challenge_methods_supported: ["S256"],
      });
    }
  });

  test("every document has what its standard requires, and says the same as the others", async () => {
    const [server, openid, ...resources] = await Promise.all(DOCUMENTS.map((path) => read(at() + path)));
    shapes.OAuthMetadataSchema.parse(server);
    shapes.OpenIdProviderDiscoveryMetadataSchema.parse(openid);
    shapes.OAuthProtectedResourceMetadataSchema.parse(resources[0]);
    expect(resources[1]).toEqual(resources[0]);
    // Clients check what they find; of the newer one the schemas are not public.
    const openidOnly: typeof fetch = async (url, init) =>
      String(url).includes("oauth-authorization-server")
        ? new Response("", { status: 404 })
        : fetch(url, init);
    for (const { discoverAuthorizationServerMetadata: discover } of [sdk, client]) {
      expect(await discover(at())).toMatchObject(server!);
      const { issuer, code_challenge_methods_supported } = openid!;
      const found = await discover(at(), { fetchFn: openidOnly });
      expect(found).toMatchObject({ issuer, code_challenge_methods_supported });
    }
    expect(openid).toMatchObject({
      ...server!,
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: [embedded ? "ES256" : "RS256"],
    });
    // A promise that clients hold the server to: Ory Hydra would break it.
    expect(server!.authorization_response_iss_parameter_supported).toBe(embedded || undefined);
    expect(server!.client_id_metadata_document_supported).toBe(embedded || undefined);
    const device = embedded ? `${at()}/oauth2/device_authorization` : undefined;
    expect(server!.device_authorization_endpoint).toBe(device);
  });
});

test("the keys that the documents name are those that sign tokens, and public ones", async () => {
  const { jwks_uri } = await read(origin + DOCUMENTS[0]!);
  const { keys } = (await read(String(jwks_uri))) as { keys: Record<string, unknown>[] };
  expect(keys.length).toBeGreaterThanOrEqual(1);
  for (const key of keys) {
    expect(key).toMatchObject({ kty: "EC", crv: "P-256" });
    expect(key).not.toHaveProperty("d");
  }
});

test("what the request says of the host changes no document", async () => {
  const headers = {
    "x-forwarded-host": "evil.example",
    "x-forwarded-proto": "https",
    forwarded: "host=evil",
  };
  for (const path of DOCUMENTS) {
    const text = await (await fetch(origin + path, { headers })).text();
    expect(text).toContain(origin);
    expect(text).not.toContain("evil");
  }
});

test("documents that describe clients are not promised where they are not taken", async () => {
  const without = await gatewayAt({ OAUTH_CLIENT_ID_METADATA: "off" });
  expect(await read(without + DOCUMENTS[0]!)).not.toHaveProperty("client_id_metadata_document_supported");
});

test("a resource of its own is named, and found at its own path", async () => {
  const port = await freePort();
  const at = `http://127.0.0.1:${port}`;
  const resource = `${at}/mcp`;
  await platform.gateway({ PORT: String(port), PUBLIC_ORIGIN: at, OAUTH_RESOURCE: resource });
  expect(await read(`${at}/.well-known/oauth-protected-resource/mcp`)).toMatchObject({ resource });
  expect(await read(`${at}/.well-known/oauth-protected-resource`)).toMatchObject({ resource });
  const refused = await fetch(`${at}/v1/me`);
  expect(sdk.extractWWWAuthenticateParams(refused).resourceMetadataUrl?.href).toBe(
    `${at}/.well-known/oauth-protected-resource/mcp`,
  );
});

describe("scripts of any origin", () => {
  const scripted = { origin: "https://inspector.example" };
  const preflight = (path: string, method: string) =>
    fetch(origin + path, {
      method: "OPTIONS",
      headers: {
        ...scripted,
        "access-control-request-method": method,
        "access-control-request-headers": "authorization,mcp-protocol-version",
      },
    });

  test.each([
    ...DOCUMENTS.map((path) => ["GET", path]),
    ["GET", "/.well-known/jwks.json"],
    ["POST", "/oauth2/token"],
    ["POST", "/oauth2/revoke"],
    ["POST", "/oauth2/device_authorization"],
    ["POST", "/v1/oauth/register"],
    ["GET", "/v1/accounts"],
  ])("may %s %s, without cookies, and see where to go on", async (method, path) => {
    const allowed = await preflight(path, method);
    expect(allowed.status).toBe(204);
    expect(allowed.headers.get("access-control-allow-origin")).toBe("*");
    expect(allowed.headers.get("access-control-allow-methods")).toContain(method);
    expect(allowed.headers.get("access-control-allow-headers")).toMatch(/^\*, authorization$/i);
    const answer = await fetch(origin + path, { method, headers: scripted });
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(answer.headers.get("access-control-expose-headers")).toContain("WWW-Authenticate");
    for (const { headers } of [allowed, answer])
      expect(headers.has("access-control-allow-credentials")).toBe(false);
  });

  test.each([
    ["GET", "/oauth2/auth"],
    ["POST", "/v1/sessions"],
    ["POST", "/v1/oauth/login/reject"],
    ["GET", "/docs"],
  ])("may not %s %s: browsers alone go there, or Berth's own pages", async (method, path) => {
    expect((await preflight(path, method)).status).toBe(405);
    const answer = await fetch(origin + path, { method, headers: scripted, redirect: "manual" });
    expect(answer.headers.has("access-control-allow-origin")).toBe(false);
  });
});
