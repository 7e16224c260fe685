import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../../../services/kit/testing/testing.ts";
import { type OauthPlatform, oauthPlatform } from "../../../support/oauth/platform.ts";
import { withEachProvider } from "../../../support/oauth/providers.ts";

withEachProvider(({ name, hydra }) => {
  let it: OauthPlatform;
  beforeAll(async () => {
    it = await oauthPlatform({ hydra });
  });
  afterAll(() => it?.stop());

  test("an application whose requests for tokens fail has to wait a minute, in its network; all others go on", async () => {
    const limits = { RATE_LIMITS: "on", RATE_LIMIT_TOKEN_FAILURES: "4", TRUST_PROXY: "loopback" };
    const { port } = await it.platform.gateway({ ...it.gatewayEnv, ...limits });
    const send = async (form: Record<string, string>, ip = "203.0.113.7") => {
      const body = new URLSearchParams(form);
      const headers = { "x-forwarded-for": ip };
      const answer = await fetch(`http://127.0.0.1:${port}/oauth2/token`, { method: "POST", body, headers });
      const { error = "" } = (await answer.json()) as { error?: string };
      return { status: answer.status, error, headers: answer.headers };
    };
    const refreshOf = ({ clientId, refreshToken }: { clientId: string; refreshToken: string }) => ({
      grant_type: "refresh_token",
      client_id: clientId,
      refresh_token: refreshToken,
    });
    const [app, other] = [await it.letIn(), await it.letIn()];
    const begun = await it.begin(app.clientId);
    const code = (await it.allow(begun)).searchParams.get("code")!;
    const failing = [
      { grant_type: "authorization_code", client_id: app.clientId, code, code_verifier: "x".repeat(43) },
      refreshOf({ ...app, refreshToken: "never issued" }),
    ];
    // What succeeds in between does not count.
    expect((await send(refreshOf(app))).status).toBe(200);
    for (const form of [...failing, ...failing])
      expect(await send({ ...form, redirect_uri: "http://127.0.0.1:3000/callback" })).toMatchObject({
        status: 400,
        error: "invalid_grant",
      });
    for (const form of [failing[1]!, refreshOf(app)]) {
      const refused = await send(form);
      expect(refused).toMatchObject({ status: 429, error: "temporarily_unavailable" });
      expect(refused.headers.get("retry-after")).toMatch(/^[1-9]\d?$/);
      expect(refused.headers.get("ratelimit-limit")).toBe("4");
    }
    expect((await send(refreshOf(other))).status).toBe(200);
    expect((await send(refreshOf(app), "203.0.113.8")).status).toBe(200);
  });

  const ends = name === "Ory Hydra";
  test(`an access token that is given to the revocation endpoint ${ends ? "ends the access" : "is refused as of a kind that only expires"}`, async () => {
    const app = await it.letIn();
    const revoke = (token: string) => it.post("/oauth2/revoke", { client_id: app.clientId, token });
    expect(await it.use(app.token)).toBe(200);
    const answer = await revoke(app.token);
    if (!ends) {
      expect([answer.status, answer.body.error]).toEqual([400, "unsupported_token_type"]);
      expect(await it.use(app.token)).toBe(200);
      expect((await revoke(app.refreshToken)).status).toBe(200);
    } else expect(answer.status).toBe(200);
    await eventually("the token is refused", async () => (await it.use(app.token)) === 401);
    expect((await it.refresh(app.clientId, app.refreshToken)).body.error).toBe("invalid_grant");
  });
});
