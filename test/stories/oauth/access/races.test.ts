import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../../../services/kit/testing/testing.ts";
import { type OauthPlatform, oauthPlatform } from "../../../support/oauth/platform.ts";

let it: OauthPlatform;
beforeAll(async () => {
  it = await oauthPlatform();
});
afterAll(() => it?.stop());

type User = { userId: string; token: string };
type App = Awaited<ReturnType<OauthPlatform["letIn"]>>;

/** What ends an application's access, and from then on everything that it held. */
const ends: Record<string, (user: User, app: App) => Promise<unknown>> = {
  "the user revokes it": (user, { clientId }) =>
    it.must("DELETE", `/me/mcp-grants/${clientId}`, undefined, user.token),
  "the user is removed": ({ userId }) => it.must("DELETE", `${it.A}/members/${userId}`),
  "the user is disabled": ({ userId }) =>
    it.pool.query("update users set disabled_at = now() where id = $1", [userId]),
  "the application revokes its token": (_user, { clientId, refreshToken }) =>
    it.post("/oauth2/revoke", { client_id: clientId, token: refreshToken }),
  "its code is used again": (_user, { begun, back }) => it.redeem(begun, back),
};

test("whatever happens while access ends, nothing that was held works, and what works is listed", async () => {
  const pause = fc.integer({ min: 0, max: 30 });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...Object.keys(ends)), pause, pause, async (end, early, late) => {
      const user = await it.member("editor");
      const app = await it.letIn({ ...user, role: "editor" });
      const begun = await it.begin(app.clientId);
      const consentChallenge = await it.signIn(begun, user);
      const after = (ms: number) => new Promise((next) => setTimeout(next, ms));
      // While it ends, the application refreshes, and the user consents once more.
      const [refreshed, consented] = await Promise.all([
        after(early).then(() => it.refresh(app.clientId, app.refreshToken)),
        after(late).then(() =>
          it.complete("consent", { consentChallenge, accountId: it.accountId, role: "reader" }, user),
        ),
        after(10).then(() => ends[end]!(user, app)),
      ]);
      const held = [app.body, refreshed.body].filter(({ access_token }) => access_token);
      for (const { access_token, refresh_token } of held) {
        const refused = async () => [401, 403].includes(await it.use(access_token!));
        await eventually(`${end}: the token is refused`, refused);
        expect((await it.refresh(app.clientId, refresh_token!)).body.error).toBe("invalid_grant");
      }
      if (consented.status !== 200) return;
      const { location } = await begun.go(consented.body.redirectTo);
      const back = new URL(location!);
      const tokens = back.searchParams.has("code") ? (await it.redeem(begun, back)).body : undefined;
      const works = tokens?.access_token !== undefined && (await it.use(tokens.access_token)) === 200;
      if (works) expect(await it.grants(user.token)).toMatchObject([{ clientId: app.clientId }]);
    }),
    { numRuns: 12, examples: Object.keys(ends).map((end) => [end, 10, 10]) },
  );
});
