import { afterAll, beforeAll, expect, test } from "vitest";
import { revokeUnusedGrants } from "../../../../services/identity/grants/lifecycle.ts";
import { sweepClients } from "../../../../services/identity/oauth/registration/sweep-clients.ts";
import { type OauthPlatform, oauthPlatform } from "../../../support/oauth/platform.ts";
import { withEachProvider } from "../../../support/oauth/providers.ts";

withEachProvider(({ name, hydra }) => {
  let it: OauthPlatform;
  beforeAll(async () => {
    it = await oauthPlatform({ hydra });
  });
  afterAll(() => it?.stop());

  /** As if the last use of an application's grants, and of the application, was so many days ago. */
  async function age(clientId: string, days: number) {
    for (const table of ["oauth_grants where client_id", "oauth_clients where id"]) {
      const [name, condition] = table.split(" where ");
      const text = `update ${name} set last_used_at = last_used_at - make_interval(days => $2) where ${condition} = $1`;
      await it.pool.query(text, [clientId, days]);
    }
  }

  /** The applications that are listed after two replicas of identity looked for grants that nobody uses. */
  async function listedAfterSweep(): Promise<string[]> {
    await Promise.all([1, 2].map(() => revokeUnusedGrants(it.pool, new Date())));
    return (await it.grants()).map(({ clientId }) => clientId!);
  }

  test("what an application last used 31 days ago ends, is no longer listed, and says why in the audit log", async () => {
    const [unused, used, refreshed] = [await it.letIn(), await it.letIn(), await it.letIn()];
    for (const { clientId } of [unused, used, refreshed]) await age(clientId, 32);
    expect(await it.use(used.token)).toBe(200);
    const { body } = await it.refresh(refreshed.clientId, refreshed.refreshToken);
    expect(await it.use(body.access_token!)).toBe(200);
    const listed = await listedAfterSweep();
    expect(listed).not.toContain(unused.clientId);
    expect(listed).toEqual(expect.arrayContaining([used.clientId, refreshed.clientId]));
    await expect.poll(() => it.use(unused.token)).toBe(401);
    await age(used.clientId, 30);
    expect(await listedAfterSweep()).toContain(used.clientId);
    await expect
      .poll(() => it.audited("oauth.grant.revoked"))
      .toContainEqual(
        expect.objectContaining({
          actor: expect.objectContaining({ kind: "service", id: "identity" }),
          metadata: { clientId: unused.clientId, reason: "unused" },
        }),
      );
  });

  test("an application that uses its tokens stays registered, one that stopped long ago does not", async () => {
    const [used, unused] = [await it.letIn(), await it.letIn()];
    for (const { clientId } of [used, unused]) await age(clientId, 91);
    expect(await it.use(used.token)).toBe(200);
    for (const { clientId } of [used, unused]) await it.must("DELETE", `/me/mcp-grants/${clientId}`);
    const gone: string[] = [];
    const provider = { deleteClient: async (id: string) => void gone.push(id) };
    await sweepClients({ pool: it.pool, provider }, new Date());
    expect(gone).toContain(unused.clientId);
    expect(gone).not.toContain(used.clientId);
  });

  if (name === "Ory Hydra")
    test("a grant whose consent an operator revoked there works no longer at once, and goes from the list", async () => {
      const app = await it.letIn();
      const me = await it.must<{ id: string }>("GET", "/me");
      const query = new URLSearchParams({ subject: me.id, client: app.clientId });
      const path = "/admin/oauth2/auth/sessions/consent";
      const revoked = await fetch(`${it.hydra!.adminUrl}${path}?${query}`, { method: "DELETE" });
      expect(revoked.status).toBe(204);
      expect(await it.use(app.token)).toBe(401);
      await age(app.clientId, 32);
      expect(await it.use(app.token)).toBe(401);
      expect(await listedAfterSweep()).not.toContain(app.clientId);
    });
});
