import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { revokeGrants } from "../../../../services/identity/grants/sql.ts";
import { eventually } from "../../../../services/kit/testing/testing.ts";
import { browser } from "../../../support/oauth/browser.ts";
import { actors, type ProviderHarness, parameter } from "./harness.ts";

/** What every identity provider guarantees. `open` starts one whose access tokens last so many seconds. */
export function identityProviderContract(
  name: string,
  open: (settings: { accessTokenSeconds: number }) => Promise<ProviderHarness>,
) {
  describe(`identity provider: ${name}`, () => {
    let harness: ProviderHarness;
    let act: ReturnType<typeof actors>;
    beforeAll(async () => {
      harness = await open({ accessTokenSeconds: 900 });
      act = actors(harness);
    });
    afterAll(() => harness?.close());

    test("a login request says who asks and for what, as the client asked", async () => {
      const { provider, resource } = harness;
      const clientId = await act.register({ client_uri: "https://app.example.com/about" });
      const { challenge } = await act.begin(clientId, { scope: "platform:write" });
      const found = await provider.findLogin(challenge);
      expect(found).toMatchObject({
        client: {
          ...{ clientId, clientName: "An app", clientUri: "https://app.example.com/about", logoUri: "" },
          redirectHost: "127.0.0.1:3000",
        },
        requestedScope: ["platform:write"],
        requestedAudience: [resource],
      });
      expect(found!.subject).toBeUndefined();
      expect(found!.expiresAt.getTime()).toBeGreaterThan(Date.now());
    });

    test("without a resource the installation's is meant; both of its spellings are taken", async () => {
      const { provider, identity, resource } = harness;
      const clientId = await act.register();
      const without = await act.begin(clientId, { resource: undefined });
      expect((await provider.findLogin(without.challenge))!.requestedAudience).toEqual([resource]);
      const other = await act.begin(clientId, { resource: `${resource}/` });
      expect((await provider.findLogin(other.challenge))!.requestedAudience).toEqual([`${resource}/`]);
      const asked = await act.signIn(other, identity.ownerId);
      expect(await provider.findConsent(asked.challenge)).toBeDefined();
    });

    test("a consent request names the user who signed in", async () => {
      const { provider, identity } = harness;
      const clientId = await act.register();
      const { challenge } = await act.signIn(await act.begin(clientId), identity.ownerId);
      expect(await provider.findConsent(challenge)).toMatchObject({
        client: { clientId, redirectHost: "127.0.0.1:3000" },
        requestedScope: ["platform:read", "platform:write"],
        subject: identity.ownerId,
      });
    });

    test("challenges that are unknown, of the other kind, or no text of the provider's are not found", async () => {
      const { provider, identity } = harness;
      const begun = await act.begin(await act.register());
      expect(await provider.findConsent(begun.challenge)).toBeUndefined();
      const { challenge } = await act.signIn(begun, identity.ownerId);
      expect(await provider.findLogin(challenge)).toBeUndefined();
      for (const hostile of [
        "unknown",
        "ü",
        "a b&login_challenge=c",
        "../clients",
        "%00",
        "x".repeat(8_192),
      ]) {
        expect(await provider.findLogin(hostile)).toBeUndefined();
        expect(await provider.findConsent(hostile)).toBeUndefined();
        const login = { userId: identity.ownerId, verifier: "v" };
        expect(await provider.acceptLogin(hostile, login)).toBeUndefined();
        expect(await provider.reject("consent", hostile, login)).toBeUndefined();
      }
    });

    test.each(["reader", "editor"] as const)("a %s's access token is that of the grant", async (role) => {
      const { grant, tokens } = await act.authorize({ role });
      const said = await harness.provider.verifyAccessToken(tokens.access_token);
      expect(said!.grantId).toBe(grant.id);
      const lasts = said!.expiresAt.getTime() - Date.now();
      expect(lasts).toBeGreaterThan(0);
      expect(lasts).toBeLessThanOrEqual(900_000 + 1_000);
    });

    test("a refreshed token is that of the same grant", async () => {
      const { clientId, grant, tokens } = await act.authorize();
      const { status, body } = await act.refresh(clientId, tokens.refresh_token);
      expect([status, body.error]).toEqual([200, undefined]);
      expect((await harness.provider.verifyAccessToken(body.access_token))!.grantId).toBe(grant.id);
      expect(body.refresh_token).not.toBe(tokens.refresh_token);
      expect((await act.refresh(clientId, body.refresh_token)).status).toBe(200);
    });

    test("tokens that are forged, changed, or no access tokens are not valid", async () => {
      const { provider } = harness;
      const { tokens, code } = await act.authorize();
      const token = tokens.access_token;
      const middle = Math.floor(token.length / 2);
      const changed = token.slice(0, middle) + (token[middle] === "A" ? "B" : "A") + token.slice(middle + 1);
      for (const bad of [changed, tokens.refresh_token, code, "ory_at_a.b", "e30.e30.e30", "x".repeat(4_096)])
        expect(await provider.verifyAccessToken(bad)).toBeUndefined();
    });

    test("what a decision led to goes on only in the browser that began", async () => {
      const { provider, identity } = harness;
      const clientId = await act.register();
      const begun = await act.begin(clientId);
      const userId = identity.ownerId;
      const verifier = await act.claim(begun.challenge);
      const decided = (await provider.acceptLogin(begun.challenge, { userId, verifier }))!;
      const other = await browser()(decided);
      expect(parameter(other.location, "consent_challenge")).toBe("");
      const own = await begun.go(decided);
      const challenge = parameter(own.location, "consent_challenge");
      const { redirectTo } = await act.consent(challenge, clientId);
      expect(parameter((await browser()(redirectTo)).location, "code")).toBe("");
    });

    test("who began cannot take over what somebody else approved", async () => {
      const { provider, identity } = harness;
      const attacker = await act.begin(await act.register());
      const verifier = await act.claim(attacker.challenge);
      // The victim is lured to the attacker's challenge, and signs in; only the victim is told where to go on.
      await provider.acceptLogin(attacker.challenge, { userId: identity.ownerId, verifier });
      const resumed = `${harness.origin}/oauth2/auth/${encodeURIComponent(attacker.challenge)}`;
      for (const url of [resumed, attacker.url]) {
        const { location } = await attacker.go(url);
        expect(parameter(location, "consent_challenge")).toBe("");
      }
    });

    test("a denied login and a denied consent tell the client access_denied, with its state", async () => {
      const { provider, identity } = harness;
      const clientId = await act.register();
      const refused = await act.begin(clientId);
      const noLogin = await provider.reject("login", refused.challenge, {
        verifier: await act.claim(refused.challenge),
      });
      const begun = await act.begin(clientId);
      const asked = await act.signIn(begun, identity.ownerId);
      const noConsent = await provider.reject("consent", asked.challenge, {
        verifier: await act.claim(asked.challenge),
      });
      for (const { location } of [await refused.go(noLogin!), await begun.go(noConsent!)]) {
        expect(location).toMatch(/^http:\/\/127\.0\.0\.1:3000\/callback\?/);
        expect(parameter(location, "error")).toBe("access_denied");
        expect(parameter(location, "state")).toBe("state-of-the-client");
      }
    });

    test.each([
      ["for another resource", "invalid_target", { resource: "https://elsewhere.example.com/v1" }],
      ["for a deeper resource", "invalid_target", { resource: "RESOURCE/deeper" }],
      ["without PKCE", "invalid_request", { code_challenge: undefined, code_challenge_method: undefined }],
      ["with a bare code challenge", "invalid_request", { code_challenge_method: "plain" }],
    ])("a client that asks %s is told %s, before anybody consents", async (_how, error, more) => {
      const { provider, identity, resource } = harness;
      const asked = "resource" in more ? { resource: more.resource.replace("RESOURCE", resource) } : more;
      const begun = await act.begin(await act.register(), asked);
      let { location } = begun;
      if (begun.challenge) {
        const login = { userId: identity.ownerId, verifier: await act.claim(begun.challenge) };
        ({ location } = await begun.go((await provider.acceptLogin(begun.challenge, login))!));
      }
      expect(location).toMatch(/^http:\/\/127\.0\.0\.1:3000\/callback\?/);
      expect(parameter(location, "error")).toBe(error);
    });

    test("a code is worth nothing without the verifier of its client", async () => {
      const clientId = await act.register();
      const begun = await act.begin(clientId);
      const { challenge } = await act.signIn(begun, harness.identity.ownerId);
      const { redirectTo } = await act.consent(challenge, clientId);
      const code = parameter((await begun.go(redirectTo)).location, "code");
      expect((await act.exchange(clientId, code, "x".repeat(43))).body.error).toBe("invalid_grant");
    });

    test("a code works once: used again, what it gave ends", async () => {
      const { clientId, code, verifier, tokens } = await act.authorize();
      expect((await act.exchange(clientId, code, verifier)).body.error).toBe("invalid_grant");
      expect((await act.refresh(clientId, tokens.refresh_token)).body.error).toBe("invalid_grant");
    });

    test("a loopback client may use any port, and nobody another path or host", async () => {
      const clientId = await act.register();
      expect(
        (await act.begin(clientId, { redirect_uri: "http://127.0.0.1:41234/callback" })).challenge,
      ).not.toBe("");
      for (const redirect_uri of ["http://127.0.0.1:3000/other", "https://elsewhere.example.com/callback"])
        expect((await act.begin(clientId, { redirect_uri })).challenge).toBe("");
    });

    test("a second user in the same browser consents as themselves", async () => {
      const { provider, identity } = harness;
      const clientId = await act.register();
      const first = await act.begin(clientId);
      const { challenge } = await act.signIn(first, identity.ownerId);
      const { redirectTo } = await act.consent(challenge, clientId);
      await first.go(redirectTo);
      const { userId } = await identity.member("editor");
      const second = await act.begin(clientId, {}, first.go);
      expect((await provider.findLogin(second.challenge))!.subject).toBeUndefined();
      const asked = await act.signIn(second, userId);
      expect((await provider.findConsent(asked.challenge))!.subject).toBe(userId);
    });

    test("revoking ends what one client got from one user, and nothing else", async () => {
      const { provider, identity } = harness;
      const { ownerId } = identity;
      const { userId } = await identity.member("editor");
      const one = await act.authorize();
      const again = await act.authorize({ clientId: one.clientId, role: "reader" });
      const others = await act.authorize({ clientId: one.clientId, userId });
      const another = await act.authorize();
      const revoked = await revokeGrants(
        identity.pool,
        { userId: ownerId, clientId: one.clientId, keep: 0 },
        new Date(),
      );
      const grantIds = revoked.map(({ id }) => id);
      expect(grantIds.sort()).toEqual([one.grant.id, again.grant.id].sort());
      await provider.revoke({ userId: ownerId, clientId: one.clientId, grantIds });
      await provider.revoke({ userId: ownerId, clientId: one.clientId, grantIds });
      for (const { tokens } of [one, again])
        expect((await act.refresh(one.clientId, tokens.refresh_token)).body.error).toBe("invalid_grant");
      expect((await act.refresh(one.clientId, others.tokens.refresh_token)).status).toBe(200);
      expect((await act.refresh(another.clientId, another.tokens.refresh_token)).status).toBe(200);
      await provider.revoke({
        userId: ownerId,
        clientId: "https://unknown.example.com/client",
        grantIds: [],
      });
    });

    test("a client that is forgotten begins nothing any more, and forgetting it again does no harm", async () => {
      const { provider, identity } = harness;
      const clientId = await act.register();
      expect((await act.begin(clientId)).challenge).not.toBe("");
      for (let n = 0; n < 2; n++) {
        await provider.deleteClient(clientId);
        await identity.pool.query("delete from oauth_clients where id = $1", [clientId]);
      }
      expect((await act.begin(clientId)).challenge).toBe("");
    });
  });

  test(`identity provider: ${name}: an access token is valid no longer than it is set to be`, async () => {
    const harness = await open({ accessTokenSeconds: 2 });
    try {
      const { tokens } = await actors(harness).authorize();
      expect(tokens.expires_in).toBeLessThanOrEqual(2);
      const valid = () => harness.provider.verifyAccessToken(tokens.access_token);
      await eventually("the token ends", async () => (await valid()) === undefined);
    } finally {
      await harness.close();
    }
  });
}
