import { afterAll, beforeAll, expect, test } from "vitest";
import { guarded } from "../../../services/identity/oauth/guarded.ts";
import { type IdentityProvider, ProviderUnavailable } from "../../../services/identity/oauth/port.ts";
import { type OauthPlatform, oauthPlatform } from "../../support/oauth/platform.ts";

let it: OauthPlatform;
beforeAll(async () => {
  it = await oauthPlatform();
});
afterAll(() => it?.stop());

/** Identity's counters of OAuth that `work` has increased, with by how much. */
async function countedDuring(work: () => Promise<unknown>): Promise<Record<string, number>> {
  const before = await counters();
  await work();
  const after = await counters();
  const grown = Object.entries(after).map(([name, value]) => [name, value - (before[name] ?? 0)] as const);
  return Object.fromEntries(grown.filter(([, by]) => by > 0));
}

async function counters(): Promise<Record<string, number>> {
  const text = await (await fetch(`${it.platform.gatewayEnv.IDENTITY_URL}/metrics`)).text();
  const lines = [...text.matchAll(/^berth_oauth_(\w+)\{(.*?),?(?:service="\w+")?\} (\d+)$/gm)];
  return Object.fromEntries(lines.map(([, name, labels, value]) => [`${name} ${labels}`, Number(value)]));
}

test("an operator sees consents, registrations and tokens, those that were refused too", async () => {
  expect(await countedDuring(() => it.letIn({ role: "reader" }))).toEqual({
    'registrations_total result="registered"': 1,
    'consents_total decision="reader"': 1,
    'token_requests_total grant_type="authorization_code",result="issued"': 1,
  });
  const refused = countedDuring(async () => {
    await it.call("POST", "/oauth/register", { redirect_uris: [] }, { token: "" });
    const begun = await it.begin(await it.register());
    const consentChallenge = await it.signIn(begun);
    await it.must("POST", "/oauth/consent/reject", { consentChallenge });
    await it.refresh(begun.clientId, "no-such-token");
    await it.post("/oauth2/token", { client_id: begun.clientId, grant_type: "made up" });
  });
  expect(await refused).toEqual({
    'registrations_total result="invalid_redirect_uri"': 1,
    'registrations_total result="registered"': 1,
    'consents_total decision="denied"': 1,
    'token_requests_total grant_type="refresh_token",result="invalid_grant"': 1,
    'token_requests_total grant_type="other",result="unsupported_grant_type"': 1,
  });
});

test("an operator sees that the provider does not answer", async () => {
  const away = { findLogin: () => Promise.reject(new ProviderUnavailable("away")) };
  const provider = guarded(away as unknown as IdentityProvider);
  const counted = countedDuring(() =>
    expect(provider.findLogin("challenge")).rejects.toThrow("does not answer"),
  );
  expect(await counted).toEqual({ 'provider_failures_total method="findLogin"': 1 });
});
