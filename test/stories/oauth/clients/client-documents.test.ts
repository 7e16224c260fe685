import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestPlatform, testPlatform } from "../../../../gateway/testing/test-platform.ts";
import { freePort } from "../../../../services/kit/process/free-port.ts";
import { connectApp, consent } from "../../../support/oauth/application.ts";
import { browser } from "../../../support/oauth/browser.ts";
import { clientStore, sdks } from "../../../support/oauth/mcp-client.ts";

const CLIENT = "https://apps.berth-tests.dev/editor/client.json?channel=stable";

let platform: TestPlatform;
let origin: string;
let call: Awaited<ReturnType<TestPlatform["gateway"]>>["call"];

beforeAll(async () => {
  const port = await freePort();
  origin = `http://127.0.0.1:${port}`;
  const document = { client_id: CLIENT, client_name: "Editor", redirect_uris: ["http://127.0.0.1/callback"] };
  const body = Buffer.from(JSON.stringify(document));
  platform = await testPlatform({}, origin, {
    fetchDocument: async ({ href }) => ({
      status: href === CLIENT ? 200 : 404,
      body,
      maxAgeSeconds: undefined,
    }),
  });
  ({ call } = await platform.gateway({ PORT: String(port), PUBLIC_ORIGIN: origin }));
});
afterAll(() => platform?.stop());

test("an application that never registered is let in by the document at its id, listed, and revoked by it", async () => {
  const [account] = (await call("GET", "/me")).body.accounts as { id: string }[];
  const accountId = account!.id;
  const app = await connectApp({ origin, call }, { accountId, role: "reader", clientId: CLIENT });
  const read = () => call("GET", `/accounts/${accountId}`, undefined, { token: app.accessToken });
  expect((await read()).status).toBe(200);
  const grants = await call("GET", "/me/mcp-grants");
  expect(grants.body).toMatchObject([{ clientId: CLIENT, clientName: "Editor", accountId, role: "reader" }]);
  expect((await call("DELETE", `/me/mcp-grants/${encodeURIComponent(CLIENT)}`)).status).toBe(204);
  expect((await call("GET", "/me/mcp-grants")).body).toEqual([]);
  await expect.poll(async () => (await read()).status).toBe(401);
});

test.each(sdks)(
  "$name signs in by the document at its URL, and does not register",
  async ({ auth, withOAuth }) => {
    const [account] = (await call("GET", "/me")).body.accounts as { id: string }[];
    const kept = clientStore("Editor", CLIENT);
    const serverUrl = `${origin}/v1`;
    const api = withOAuth(kept as never, serverUrl)(fetch);
    await expect(api(`${serverUrl}/accounts`)).rejects.toThrow(/redirect/i);
    const url = kept.opened()!;
    expect(url.searchParams.get("client_id")).toBe(CLIENT);
    const back = await consent(call, url.href, { accountId: account!.id, role: "reader" });
    const { code, iss } = Object.fromEntries(back.searchParams);
    await auth(kept as never, { serverUrl, authorizationCode: code!, iss: iss! } as never);
    expect((await api(`${serverUrl}/accounts/${account!.id}`)).status).toBe(200);
    // It refreshes by its URL too.
    kept.saveTokens({ ...kept.tokens()!, access_token: "expired" });
    expect((await api(`${serverUrl}/accounts/${account!.id}`)).status).toBe(200);
    expect((await call("GET", "/me/mcp-grants")).body).toMatchObject([{ clientId: CLIENT }]);
    expect((await call("DELETE", `/me/mcp-grants/${encodeURIComponent(CLIENT)}`)).status).toBe(204);
  },
);

test("who is asked to let it in sees where it is described", async () => {
  const query = new URLSearchParams({
    client_id: CLIENT,
    response_type: "code",
    redirect_uri: "http://127.0.0.1:7000/callback",
    code_challenge: createHash("sha256").update("verifier").digest("base64url"),
    code_challenge_method: "S256",
  });
  const go = browser();
  const { location } = await go(`${origin}/oauth2/auth?${query}`);
  const challenge = new URL(location!).searchParams.get("login_challenge");
  const { body } = await call("GET", `/oauth/login-request?challenge=${challenge}`, undefined, { token: "" });
  expect(body.client).toMatchObject({ clientId: CLIENT, documentHost: "apps.berth-tests.dev" });
  const { text } = await go(location!);
  expect(text).toContain("Described by apps.berth-tests.dev, unverified.");
  expect(text).toContain(`Described at</dt><dd><bdi>${CLIENT}`);
  expect(text).not.toContain("Self-registered");
});

test("an application whose document is not there is sent to the page of errors, with the reason in its address", async () => {
  const query = new URLSearchParams({ client_id: `${CLIENT}.old`, response_type: "code" });
  const { location } = await browser()(`${origin}/oauth2/auth?${query}`);
  expect(location).toMatch(/\/oauth\/error\?/);
  const { searchParams } = new URL(location!);
  expect(searchParams.get("error")).toBe("invalid_client");
  expect(searchParams.get("error_description")).toContain("answers 404");
  const { text } = await browser()(location!);
  expect(text).toContain("The application is not registered here.");
});
