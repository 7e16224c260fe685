import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { challengeOf, type OauthPlatform, oauthPlatform } from "../../../support/oauth/platform.ts";

let it: OauthPlatform;
beforeAll(async () => {
  it = await oauthPlatform();
});
afterAll(() => it?.stop());

/** All rows of all tables as text, and their bytes also as if they were text. */
async function dump(): Promise<string> {
  const tables = await it.pool.query<{ name: string }>(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
     where table_schema in ('identity', 'gateway') and table_type = 'BASE TABLE'`,
  );
  const parts: string[] = [];
  for (const { name } of tables.rows) {
    const { rows } = await it.pool.query<{ row: string }>(`select to_jsonb(t)::text as row from ${name} t`);
    parts.push(...rows.map(({ row }) => row));
  }
  const bytes = parts.join("\n").matchAll(/\\\\x([0-9a-f]+)/g);
  return [...parts, ...[...bytes].map(([, hex]) => Buffer.from(hex!, "hex").toString("latin1"))].join("\n");
}

test("neither the database nor a log holds anything that opens something, at any step of a flow", async () => {
  const clientId = await it.register();
  const begun = await it.begin(clientId, {
    params: { state: "a-state-of-the-client", scope: "openid platform:read" },
  });
  const secrets: Record<string, string | undefined> = {
    loginChallenge: begun.loginChallenge,
    state: "a-state-of-the-client",
  };
  const dumps = [await dump()];
  const key = { "idempotency-key": "a-key" };
  const login = await it.call<{ redirectTo: string }>(
    "POST",
    "/oauth/login/complete",
    { loginChallenge: begun.loginChallenge },
    { headers: key },
  );
  secrets.loginVerifier = new URL(login.body.redirectTo).searchParams.get("verifier")!;
  dumps.push(await dump());
  const between = await begun.go(login.body.redirectTo);
  const consentChallenge = challengeOf(between.location, "consent");
  secrets.consentChallenge = consentChallenge;
  const sessionId = /berth_oauth=([^;]+)/.exec(between.setCookies.join())?.[1];
  expect(sessionId).toBeTruthy();
  secrets.sessionId = sessionId;
  dumps.push(await dump());
  const consent = await it.complete("consent", { consentChallenge, accountId: it.accountId, role: "editor" });
  secrets.consentVerifier = new URL(consent.body.redirectTo).searchParams.get("verifier")!;
  dumps.push(await dump());
  const back = new URL((await begun.go(consent.body.redirectTo)).location!);
  secrets.code = back.searchParams.get("code")!;
  dumps.push(await dump());
  const { body } = await it.redeem(begun, back);
  const refreshed = await it.refresh(clientId, body.refresh_token!);
  secrets.refreshToken = body.refresh_token!;
  secrets.nextRefreshToken = refreshed.body.refresh_token!;
  secrets.accessToken = body.access_token!;
  secrets.idToken = body.id_token!;
  secrets.codeVerifier = begun.codeVerifier;
  await it.use(body.access_token!);
  dumps.push(await dump());
  expect(dumps.at(-1)).toContain(clientId);
  const all = [...dumps, ...it.logLines].join("\n");
  for (const [name, secret] of Object.entries(secrets)) {
    expect(secret!.length, name).toBeGreaterThan(15);
    expect(all.includes(secret!), name).toBe(false);
  }
});

test("neither the database nor a log holds a code of a device, as it is or as a hash", async () => {
  const { body } = await it.post("/oauth2/device_authorization", { client_id: "berth-cli" });
  const { device_code: deviceCode, user_code: userCode } = body as { device_code: string; user_code: string };
  const decision = { userCode, accountId: it.accountId, role: "reader" };
  const dumps = [await dump()];
  await it.must("GET", `/oauth/device-request?userCode=${userCode}`);
  await it.must("POST", "/oauth/device/complete", decision);
  dumps.push(await dump());
  const stored = await it.pool.query<{ user_code: string }>("select user_code from oauth_devices");
  expect(stored.rows).toHaveLength(1);
  const all = [...dumps, ...it.logLines].join("\n");
  const plain = userCode.replace("-", "");
  const hashes = [plain, userCode].flatMap((code) =>
    (["hex", "base64", "base64url", "binary"] as const).map((as) =>
      createHash("sha256").update(code).digest(as),
    ),
  );
  for (const secret of [deviceCode, plain, userCode, ...hashes]) expect(all.includes(secret)).toBe(false);
});

test("the keys that sign tokens are in the database, and nobody reads them there", async () => {
  const { rows } = await it.pool.query<{ sealed: Buffer }>("select sealed from oauth_keys");
  expect(rows).toHaveLength(1);
  expect(rows[0]!.sealed.toString("latin1")).not.toMatch(/"d"|"kty"/);
  const answer = await fetch(`${it.origin}/.well-known/jwks.json`);
  const { keys } = (await answer.json()) as { keys: Record<string, string>[] };
  expect(keys).toHaveLength(1);
  expect(Object.keys(keys[0]!)).not.toContain("d");
});
