import * as oauth from "oauth4webapi";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../../../services/kit/testing/testing.ts";
import { consent } from "../../../support/oauth/application.ts";
import { withEachProvider } from "../../../support/oauth/providers.ts";
import type { Platform } from "../../../support/world.ts";

const http = { [oauth.allowInsecureRequests]: true };
const REDIRECT = "http://127.0.0.1:3000/callback";

withEachProvider(({ open }) => {
  let platform: Platform;
  beforeAll(async () => {
    platform = await open();
  });
  afterAll(() => platform?.stop());

  /** Discovers the server and registers, as a client that knows nothing but the origin. */
  async function register() {
    const issuer = new URL(platform.origin);
    const as = await oauth.processDiscoveryResponse(
      issuer,
      await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...http }),
    );
    const answer = await oauth.dynamicClientRegistrationRequest(
      as,
      { client_name: "An app", redirect_uris: [REDIRECT], token_endpoint_auth_method: "none" },
      http,
    );
    const client = (await oauth.processDynamicClientRegistrationResponse(answer)) as oauth.Client;
    return { as, client };
  }

  /** Takes the authorization code flow with PKCE, as a user who lets the client into the account. */
  async function authorize(role: "reader" | "editor") {
    const { as, client } = await register();
    const verifier = oauth.generateRandomCodeVerifier();
    const state = oauth.generateRandomState();
    const url = new URL(as.authorization_endpoint!);
    const resource = platform.baseUrl;
    url.search = new URLSearchParams({
      client_id: client.client_id,
      response_type: "code",
      redirect_uri: REDIRECT,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
      scope: "platform:write",
      ...{ state, resource },
    }).toString();
    const back = await consent(platform.call, url.href, { accountId: platform.accountId, role });
    const params = oauth.validateAuthResponse(as, client, back, state);
    const redeem = (codeVerifier: string) =>
      oauth.authorizationCodeGrantRequest(as, client, oauth.None(), params, REDIRECT, codeVerifier, {
        ...http,
        additionalParameters: { resource },
      });
    const refresh = (token: string) => oauth.refreshTokenGrantRequest(as, client, oauth.None(), token, http);
    return { as, client, verifier, redeem, refresh };
  }

  /** The status of reading the account, and of changing something in it. */
  async function reach(token: string): Promise<[number, number]> {
    const read = await platform.call("GET", platform.A, undefined, { token });
    const write = await platform.call("POST", `${platform.A}/projects`, { name: "Not a name" }, { token });
    return [read.status, write.status];
  }

  test("a client gets the access that its user chose, keeps it by refreshing, and gives it back", async () => {
    const { as, client, verifier, redeem, refresh } = await authorize("reader");
    const tokens = await oauth.processAuthorizationCodeResponse(as, client, await redeem(verifier));
    expect(await reach(tokens.access_token)).toEqual([200, 403]);
    expect(tokens).toMatchObject({ token_type: "bearer" });
    // Hydra names the right to refresh too, and counts by seconds that have begun.
    expect(tokens.scope).toMatch(/^platform:read( offline_access)?$/);
    expect(tokens.expires_in).toBeLessThanOrEqual(900);
    const again = await oauth.processRefreshTokenResponse(as, client, await refresh(tokens.refresh_token!));
    expect(await reach(again.access_token)).toEqual([200, 403]);
    const given = await oauth.revocationRequest(as, client, oauth.None(), again.refresh_token!, http);
    expect(await oauth.processRevocationResponse(given)).toBeUndefined();
    for (const { access_token } of [tokens, again])
      await eventually("the token is refused", async () => (await reach(access_token))[0] === 401);
    expect(await (await refresh(again.refresh_token!)).json()).toMatchObject({ error: "invalid_grant" });
  });

  test("an editor's client may change things, until its user takes the access back", async () => {
    const { as, client, verifier, redeem, refresh } = await authorize("editor");
    const tokens = await oauth.processAuthorizationCodeResponse(as, client, await redeem(verifier));
    expect(await reach(tokens.access_token)).toEqual([200, 422]);
    const grants = await platform.must<{ clientId: string }[]>("GET", "/me/mcp-grants");
    expect(grants).toContainEqual(
      expect.objectContaining({
        clientId: client.client_id,
        clientName: "An app",
        role: "editor",
        accountId: platform.accountId,
      }),
    );
    const manage = await platform.call("GET", "/me/mcp-grants", undefined, { token: tokens.access_token });
    expect([manage.status, manage.body.error?.code]).toEqual([403, "machine_actor_forbidden"]);
    await platform.must("DELETE", `/me/mcp-grants/${client.client_id}`);
    await eventually("the token is refused", async () => (await reach(tokens.access_token))[0] === 401);
    expect(await (await refresh(tokens.refresh_token!)).json()).toMatchObject({ error: "invalid_grant" });
  });

  test("a code is worth nothing without the verifier of its client", async () => {
    const { redeem } = await authorize("reader");
    const answer = await redeem(oauth.generateRandomCodeVerifier());
    expect([answer.status, await answer.json()]).toMatchObject([400, { error: "invalid_grant" }]);
  });
});
