import { createHash, X509Certificate } from "node:crypto";
import { auth, withOAuth } from "@modelcontextprotocol/client";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { connectKube } from "../../services/deployer/kube/client.ts";
import { type Mailbox, startMailbox } from "../../services/kit/testing/smtp-server.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { listeningProgram } from "../stories/pages/application.ts";
import { allow, toConsent } from "../stories/pages/chromium.ts";
import { chromiumProgram, complaintsOf, openBrowser } from "../support/browser.ts";
import { connectApp } from "../support/oauth/application.ts";
import { clientStore } from "../support/oauth/mcp-client.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { connectKubectl } from "./kubectl.ts";
import { findPrefix } from "./prefix.ts";

const { namespace, appsHost, certificate } = inject("platform")!;
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
  expect(origin).toMatch("https://");
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
  // It is for what ends TLS.
  expect(page.headers.get("strict-transport-security")).toBeNull();
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
  // No restart of the Deployment, which would change it: the chart's tests compare what an upgrade changes.
  await kubectl.call("delete", "pods", "-l", "app.kubernetes.io/component=identity", "-n", namespace);
  await kubectl.call("rollout", "status", identity, "-n", namespace, "--timeout=240s");
  // The Deployment may say that it is rolled out before it has noticed that its pods are gone.
  await eventually("the token is good at the new pods", async () =>
    (await reads(app.accessToken)).every((status) => status === 200),
  );
  const { accessToken } = await app.refresh();
  expect(new Set(await reads(accessToken))).toEqual(new Set([200]));
  await world.must("DELETE", grantsOf(app.clientId));
});

if (!chromiumProgram) console.log("Skipped: OAuth by https in a browser. No Chromium on the PATH.");

describe.skipIf(!chromiumProgram)("in a browser, by https", () => {
  let box: Mailbox;
  let browser: Browser;
  let program: Awaited<ReturnType<typeof listeningProgram>>;
  beforeAll(async () => {
    const spki = new X509Certificate(certificate).publicKey.export({ type: "spki", format: "der" });
    const known = createHash("sha256").update(spki).digest("base64");
    const trust = `--ignore-certificate-errors-spki-list=${known}`;
    const { hostname } = new URL(world.origin);
    const resolve = `--host-resolver-rules=MAP ${hostname} ${appsHost}`;
    box = await startMailbox({ at: inject("platform")!.smtp });
    [browser, program] = await Promise.all([openBrowser(trust, resolve), listeningProgram()]);
  });
  afterAll(async () => {
    await browser?.close();
    await box?.stop();
    program?.stop();
  });

  test("an MCP client is let in on the pages, and refused once its user has ended that there", async () => {
    const { origin, baseUrl } = world;
    const user = await world.member("editor", box);
    const kept = { ...clientStore("Notes for Berth"), redirectUrl: program.redirectUri };
    const api = withOAuth(kept, baseUrl)(fetch);
    await expect(api(`${baseUrl}/accounts`)).rejects.toThrow(/redirect/i);
    const context = await browser.newContext();
    const page = await context.newPage();
    const complaints = complaintsOf(page, origin);
    await toConsent(page, { authorizeUrl: () => kept.opened()!.href }, user);
    const cookies = await context.cookies();
    expect(cookies.map(({ name }) => name)).toContain("__Host-berth_session");
    expect(cookies.filter(({ secure, httpOnly }) => !(secure && httpOnly))).toEqual([]);
    await allow(page);
    await page.waitForURL((url) => url.href.startsWith(program.redirectUri));
    const { code, iss, state } = Object.fromEntries(new URL(page.url()).searchParams);
    expect({ iss, state }).toEqual({ iss: origin, state: kept.state() });
    await auth(kept, { serverUrl: baseUrl, authorizationCode: code, iss });
    expect(await (await api(baseUrl + world.A)).json()).toMatchObject({
      id: world.accountId,
      myRole: "reader",
    });

    await page.goto(`${origin}/connected-applications`);
    await page.getByText("Revoke…").click();
    await page.getByRole("button", { name: "Revoke access of Notes for Berth" }).click();
    await page.getByText("Access revoked.").waitFor();
    expect(complaints.filter((one) => !one.startsWith(new URL(program.redirectUri).origin))).toEqual([]);
    const { access_token: token } = kept.tokens()!;
    await eventually("every read is refused", async () =>
      (await reads(token)).every((status) => status === 401),
    );
    // It asks its user again, as its refresh token has ended too.
    await expect(api(`${baseUrl}/accounts`)).rejects.toThrow(/redirect/i);
  });
});
