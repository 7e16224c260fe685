import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { InternalService } from "../../../../proto/gen/berth/identity/v1/internal_pb.ts";
import { OauthService } from "../../../../proto/gen/berth/identity/v1/oauth_pb.ts";
import { createLog } from "../../../kit/log.ts";
import { readConfig } from "../../../kit/process/config.ts";
import { freePort } from "../../../kit/process/free-port.ts";
import type { Caller } from "../../../kit/rpc/caller-token.ts";
import { refused } from "../../../kit/testing/refusal.ts";
import { nodeEnv } from "../../../kit/testing/service-process.ts";
import { clientAs, eventually } from "../../../kit/testing/testing.ts";
import { fields } from "../../config.ts";
import { start } from "../../main.ts";
import { startIdentity, type TestIdentity, testEnv } from "../../testing.ts";
import {
  type FakeAnswer,
  type FakeCall,
  type FakeHydra,
  hydraRequest,
  startFakeHydra,
} from "./fake-hydra-testing.ts";

const origin = "https://berth.example.com";
const expired = "422 validation_failed challenge_expired";
const away = "502 identity_provider_unavailable";

let fake: FakeHydra;
let identity: TestIdentity;
let oauth: ReturnType<typeof oauthAs>;
let caller: Partial<Caller>;
let number = 0;
beforeAll(async () => {
  fake = await startFakeHydra();
  identity = await startIdentity(hydraEnv());
  ({ caller } = await identity.as(identity.ownerToken));
  oauth = oauthAs(identity.port);
});
afterAll(async () => {
  await identity?.stop();
  await fake?.close();
});
beforeEach(() => {
  fake.calls.length = 0;
  fake.answer = newerHydra;
});

const hydraEnv = () => ({ IDENTITY_PROVIDER: "hydra", HYDRA_ADMIN_URL: fake.url, PUBLIC_ORIGIN: origin });

/** The RPCs for the owner of the installation. */
function oauthAs(port: number) {
  return clientAs(OauthService, port, caller);
}

/** Version 2.2 and later: it never says that a challenge was used. */
function newerHydra({ method, path }: FakeCall): FakeAnswer {
  if (path === "/admin/clients")
    return { status: 201, body: { client_uri: "", contacts: null, client_secret: "" } };
  const kind = path.includes("/login") ? "login" : "consent";
  const subject = kind === "consent" ? identity.ownerId : "";
  const found = hydraRequest(origin, { subject });
  return { body: method === "GET" ? found : { redirect_to: `${found.request_url}&${kind}_verifier=v` } };
}

const nextChallenge = () => `challenge-${++number}`;

test("a challenge is answered once, although Hydra answers it as often as it is asked", async () => {
  const loginChallenge = nextChallenge();
  const { redirectTo } = await oauth.completeLogin({ loginChallenge });
  expect(redirectTo).toContain("login_verifier=v");
  for (const again of [
    () => oauth.completeLogin({ loginChallenge }),
    () => oauth.rejectLogin({ loginChallenge }),
    () => oauth.getLoginRequest({ challenge: loginChallenge }),
  ])
    expect(await refused(again())).toBe(expired);
  const consentChallenge = nextChallenge();
  const consent = { consentChallenge, accountId: identity.accountId, role: "reader" };
  const many = await Promise.allSettled([1, 2, 3, 4].map(() => oauth.completeConsent(consent)));
  expect(many.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  expect((await oauth.listMcpGrants({})).data).toHaveLength(1);
});

test("while Hydra is away nothing is granted, and the same challenge works afterwards", async () => {
  const before = (await oauth.listMcpGrants({})).data.length;
  const consentChallenge = nextChallenge();
  const { accountId } = identity;
  fake.answer = (call) => (call.method === "PUT" ? "cut" : newerHydra(call));
  expect(await refused(oauth.completeConsent({ consentChallenge, accountId, role: "editor" }))).toBe(away);
  expect(await refused(oauth.rejectConsent({ consentChallenge }))).toBe(away);
  fake.answer = () => ({ status: 500 });
  expect(await refused(oauth.getConsentRequest({ challenge: consentChallenge }))).toBe(away);
  expect((await oauth.listMcpGrants({})).data).toHaveLength(before);
  fake.answer = newerHydra;
  const { redirectTo } = await oauth.completeConsent({ consentChallenge, accountId, role: "editor" });
  expect(redirectTo).toContain("consent_verifier=v");
});

test("a grant is revoked here even while Hydra is unavailable, and at Hydra when it is revoked again", async () => {
  const { accountId } = identity;
  await oauth.completeConsent({ consentChallenge: nextChallenge(), accountId, role: "editor" });
  fake.answer = () => "cut";
  expect(await refused(oauth.revokeMcpGrants({ clientId: "app" }))).toBe(away);
  expect((await oauth.listMcpGrants({})).data).toEqual([]);
  fake.answer = () => ({ status: 204 });
  await oauth.revokeMcpGrants({ clientId: "app" });
  expect(fake.calls.at(-1)).toMatchObject({ method: "DELETE", path: "/admin/oauth2/auth/sessions/consent" });
});

describe("registration", () => {
  const gateway = () => clientAs(InternalService, identity.port, { kind: "service", id: "gateway" });
  const metadata = Buffer.from(
    JSON.stringify({ client_name: "An app", redirect_uris: ["http://127.0.0.1/callback"], client_uri: "" }),
  );
  const registered = async () =>
    (await identity.pool.query<{ n: number }>("select count(*)::int as n from oauth_clients")).rows[0]!.n;

  test("a client is public at Hydra, for this audience, and nothing of Hydra's answer is passed on", async () => {
    const { result } = await gateway().registerClient({ metadata, ip: "203.0.113.7" });
    const document = JSON.parse(String(result.value)) as Record<string, unknown>;
    expect(Object.values(document).filter((value) => value === "" || value === null)).toEqual([]);
    expect(Object.keys(document).filter((name) => /secret|registration_/.test(name))).toEqual([]);
    const asked = JSON.parse(fake.calls.at(-1)!.body) as Record<string, unknown>;
    expect(asked).toMatchObject({
      client_id: document.client_id,
      redirect_uris: ["http://127.0.0.1/callback"],
      token_endpoint_auth_method: "none",
      scope: "platform:read platform:write offline_access",
      audience: [`${origin}/v1`, `${origin}/mcp`],
      authorization_code_grant_access_token_lifespan: "900s",
      refresh_token_grant_access_token_lifespan: "900s",
    });
    expect(asked).not.toHaveProperty("client_secret");
  });

  test("a client that Hydra refuses gets the error of RFC 7591, and is not stored", async () => {
    const before = await registered();
    for (const error of ["invalid_redirect_uri", "invalid_client_metadata"]) {
      fake.answer = () => ({ status: 400, body: { error, error_description: "It is wrong." } });
      const { result } = await gateway().registerClient({ metadata, ip: "203.0.113.7" });
      expect(result.value).toMatchObject({ error, errorDescription: "It is wrong." });
    }
    expect(await registered()).toBe(before);
  });

  test("while Hydra is away registration is refused as such; what may have been made there stays known", async () => {
    const before = await registered();
    fake.answer = () => "cut";
    expect(await refused(gateway().registerClient({ metadata, ip: "203.0.113.7" }))).toBe(away);
    expect(await registered()).toBe(before + 1);
  });
});

test("Hydra gets Berth's command line as a client once, without the grant that it does not have", async () => {
  const gateway = clientAs(InternalService, identity.port, { kind: "service", id: "gateway" });
  const sent = { software_id: "berth-cli", redirect_uris: ["http://127.0.0.1/callback"] };
  const metadata = Buffer.from(JSON.stringify(sent));
  for (const status of [201, 409]) {
    fake.calls.length = 0;
    fake.answer = () => ({ status, body: {} });
    const { result } = await gateway.registerClient({ metadata, ip: "203.0.113.7" });
    const grant_types = ["authorization_code", "refresh_token"];
    expect(JSON.parse(String(result.value))).toMatchObject({ client_id: "berth-cli", grant_types });
    expect(fake.calls.map(({ body }) => JSON.parse(body))).toMatchObject([
      { client_id: "berth-cli", grant_types },
    ]);
  }
  const device = { grant_types: ["urn:ietf:params:oauth:grant-type:device_code"] };
  const { result } = await gateway.registerClient({
    metadata: Buffer.from(JSON.stringify(device)),
    ip: "::1",
  });
  expect(result.value).toMatchObject({ error: "invalid_client_metadata" });
});

test("identity that is killed after Hydra accepted leaves no grant, and no token of it is taken", async () => {
  const port = await freePort();
  const env = testEnv(identity.database.url("identity"), identity.nats.url, {
    ...hydraEnv(),
    PORT: String(port),
  });
  const run = () =>
    spawn(process.execPath, [join(import.meta.dirname, "../../main.ts")], {
      env: { ...nodeEnv, ...env },
      stdio: "ignore",
    });
  const ready = () =>
    eventually("identity is ready", () =>
      fetch(`http://127.0.0.1:${port}/readyz?exclude=events`).then(
        (answer) => answer.ok,
        () => false,
      ),
    );
  const { accountId } = identity;
  const consent = { consentChallenge: nextChallenge(), accountId, role: "editor" };
  const grants = async () =>
    (await identity.pool.query<{ id: string }>("select id from oauth_grants order by id")).rows;
  const before = await grants();
  let child = run();
  try {
    await ready();
    let grantId = "";
    fake.answer = async (call) => {
      if (call.method === "PUT") {
        grantId = (JSON.parse(call.body) as { session: { access_token: { grant_id: string } } }).session
          .access_token.grant_id;
        child.kill("SIGKILL");
        await once(child, "exit");
      }
      return newerHydra(call);
    };
    await expect(oauthAs(port).completeConsent(consent)).rejects.toThrow();
    expect(grantId).toMatch(/^grt_/);
    fake.answer = newerHydra;
    child = run();
    await ready();
    expect(await grants()).toEqual(before);
    expect(await refused(oauthAs(port).completeConsent(consent))).toBe(expired);
    const exp = Math.floor(Date.now() / 1000) + 900;
    fake.answer = () => ({ body: { active: true, aud: [`${origin}/v1`], exp, ext: { grant_id: grantId } } });
    const gateway = clientAs(InternalService, port, { kind: "service", id: "gateway" });
    expect(await refused(gateway.lookupMachine({ token: "ory_at_a.b" }))).toBe("401 unauthenticated");
  } finally {
    child.kill("SIGKILL");
  }
});

test.each<Record<string, string>>([{}, { HYDRA_ADMIN_URL: "http://user:a-password@127.0.0.1:4445" }])(
  "without a usable address of Hydra's, identity says what is missing and does not start",
  async (more) => {
    const env = testEnv(identity.database.url("identity"), identity.nats.url, {
      IDENTITY_PROVIDER: "hydra",
      ...more,
    });
    const error: Error = await start(readConfig(env, fields), createLog("identity", "silent")).then(
      () => new Error("started"),
      (thrown: Error) => thrown,
    );
    expect(error.message).toContain("IDENTITY_PROVIDER=hydra needs HYDRA_ADMIN_URL");
    expect(error.message).not.toContain("a-password");
  },
);
