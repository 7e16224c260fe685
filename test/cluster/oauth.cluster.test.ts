import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { connectKube } from "../../services/deployer/kube/client.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { connectApp } from "../support/oauth/application.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { connectKubectl } from "./kubectl.ts";
import { findPrefix } from "./prefix.ts";

const { namespace } = inject("platform")!;
let world: Platform;

beforeAll(async () => {
  world = await openPlatform();
});

afterAll(() => world?.stop());

const connect = (role: "reader" | "editor") => connectApp(world, { accountId: world.accountId, role });
const grantsOf = (clientId: string) => `/me/mcp-grants/${encodeURIComponent(clientId)}`;

/** The statuses of as many reads that replicas answer all of them. */
const reads = (token: string) =>
  Promise.all(
    Array.from({ length: 12 }, async () => (await world.call("GET", world.A, undefined, { token })).status),
  );

test("behind the ingress, a client finds its way from a 401 to the provider, and users theirs to the pages", async () => {
  const { origin, baseUrl } = world;
  const refused = await world.call("GET", "/accounts", undefined, { token: "" });
  const [, metadata] =
    /resource_metadata="([^"]+)"/.exec(refused.headers.get("www-authenticate") ?? "") ?? [];
  expect(metadata).toMatch(`${origin}/.well-known/oauth-protected-resource`);
  const read = async (url: string) => (await (await fetch(url)).json()) as Record<string, unknown>;
  expect(await read(metadata!)).toMatchObject({ resource: baseUrl, authorization_servers: [origin] });
  const server = await read(`${origin}/.well-known/oauth-authorization-server`);
  expect(server).toMatchObject({
    issuer: origin,
    authorization_endpoint: `${origin}/oauth2/auth`,
    token_endpoint: `${origin}/oauth2/token`,
    registration_endpoint: `${baseUrl}/oauth/register`,
    jwks_uri: `${origin}/.well-known/jwks.json`,
  });
  expect(await read(`${origin}/.well-known/jwks.json`)).toMatchObject({
    keys: [expect.objectContaining({ kty: "EC" })],
  });
  const page = await fetch(`${origin}/signin`);
  expect(page.headers.get("content-type")).toMatch("text/html");
  const [, style] = /<link rel="stylesheet" href="([^"]+)"/.exec(await page.text())!;
  expect((await fetch(origin + style)).headers.get("content-type")).toMatch("text/css");
  expect((await fetch(`${origin}/connected-applications`)).url).toMatch(`${origin}/signin`);
});

test("access that its user ends is over at every replica", async () => {
  const app = await connect("editor");
  expect(new Set(await reads(app.accessToken))).toEqual(new Set([200]));
  await world.must("DELETE", grantsOf(app.clientId));
  await eventually("every read is refused", async () =>
    (await reads(app.accessToken)).every((status) => status === 401),
  );
  expect(await app.refused()).toBe("400 invalid_grant");
});

test("access outlives the pods of identity that gave it", async () => {
  const app = await connect("reader");
  const kubectl = await connectKubectl();
  const identity = `deployment/${await findPrefix(connectKube(), namespace)}-identity`;
  await kubectl.call("rollout", "restart", identity, "-n", namespace);
  await kubectl.call("rollout", "status", identity, "-n", namespace, "--timeout=240s");
  expect(new Set(await reads(app.accessToken))).toEqual(new Set([200]));
  const { accessToken } = await app.refresh();
  expect(new Set(await reads(accessToken))).toEqual(new Set([200]));
  await world.must("DELETE", grantsOf(app.clientId));
});
