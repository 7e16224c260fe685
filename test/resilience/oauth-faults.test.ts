import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { sweepOauth } from "../../services/identity/oauth/sweep.ts";
import { freePort } from "../../services/kit/process/free-port.ts";
import { holdCommits } from "../../services/kit/testing/hold-commits.ts";
import { openProxy } from "../../services/kit/testing/proxy.ts";
import { nodeEnv } from "../../services/kit/testing/service-process.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { refusal } from "../support/door.ts";
import { end } from "../support/launched.ts";
import { browser } from "../support/oauth/browser.ts";
import { challengeOf, type OauthPlatform, oauthPlatform } from "../support/oauth/platform.ts";
import { createReplicas, type Replicas } from "../support/oauth/replicas.ts";

let it: OauthPlatform;
let replicas: Replicas;
beforeAll(async () => {
  it = await oauthPlatform();
  replicas = createReplicas(it);
});
afterEach(() => replicas?.stop());
afterAll(() => it?.stop());

/** Identity as a process of its own, which a test can kill. */
async function identityProcess() {
  const port = await freePort();
  let child: ChildProcess | undefined;
  const output: string[] = [];
  const run = async () => {
    child = spawn(process.execPath, [join(import.meta.dirname, "../../services/identity/main.ts")], {
      env: { ...nodeEnv, ...replicas.env({ PORT: String(port) }) },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [child.stdout!, child.stderr!])
      stream.on("data", (part: Buffer) => output.push(part.toString()));
    await eventually("identity is ready", () =>
      fetch(`http://127.0.0.1:${port}/readyz?exclude=events`).then(
        ({ ok }) => ok,
        () => false,
      ),
    );
  };
  const kill = async () => {
    const gone = once(child!, "exit");
    child!.kill("SIGKILL");
    await gone;
  };
  replicas.atEnd(() => end(child!, "SIGTERM"));
  await run();
  return { port, run, kill, lines: () => output.join("").split("\n").filter(Boolean) };
}

const of = (clientId: string, grants: Record<string, string>[]) =>
  grants.filter((grant) => grant.clientId === clientId);

test("while the database is away nothing is granted and everybody is told to try again; then the flow goes on", async () => {
  const proxy = await openProxy(new URL(it.platform.database.url("identity")));
  const there = await replicas.replica({ DATABASE_URL: proxy.of(it.platform.database.url("identity")) });
  replicas.atEnd(async () => proxy.cut());
  const clientId = await it.register();
  const begun = await it.begin(clientId);
  const other = await it.begin(clientId);
  const back = await it.allow(other);
  const consentChallenge = await it.signIn(begun);
  const body = { consentChallenge, accountId: it.accountId, role: "reader" };
  const before = of(clientId, await it.grants());
  proxy.shut();
  const consent = await it.complete("consent", body, there);
  expect([consent.status, consent.headers.has("retry-after")]).toEqual([503, true]);
  const { url } = it.authorizeUrl(clientId);
  const refused = await browser()(url.replace(it.origin, there.origin));
  expect(refused.location).toContain("/oauth/error?error=temporarily_unavailable");
  const token = await it.redeem(other, back, {}, there.origin);
  expect([token.status, token.body.error]).toEqual([503, "temporarily_unavailable"]);
  expect(of(clientId, await it.grants())).toEqual(before);
  await proxy.open();
  const accepted = await eventually("the database is back", async () => {
    const answer = await it.complete("consent", body, there);
    return answer.status !== 503 && answer;
  });
  expect(accepted.status).toBe(200);
  const returned = new URL((await begun.go(accepted.body.redirectTo)).location!);
  expect((await it.redeem(begun, returned, {}, there.origin)).status).toBe(200);
  expect((await it.redeem(other, back, {}, there.origin)).status).toBe(200);
});

test("a flow is begun at one replica, decided at another, and its token taken at the first", async () => {
  const there = await replicas.replica();
  const clientId = await it.register();
  const begun = await it.begin(clientId);
  const consentChallenge = await it.signIn(begun, { origin: there.origin });
  const body = { consentChallenge, accountId: it.accountId, role: "reader" };
  const { redirectTo } = (await it.complete("consent", body, there)).body;
  const back = new URL((await begun.go(redirectTo)).location!);
  const { body: tokens } = await it.redeem(begun, back);
  const read = await there.call("GET", it.A, undefined, { token: tokens.access_token! });
  expect(read.status).toBe(200);
  await there.must("DELETE", `/me/mcp-grants/${clientId}`);
  await eventually("it is refused at the first", async () => (await it.use(tokens.access_token!)) === 401);
  expect((await it.refresh(clientId, tokens.refresh_token!)).body.error).toBe("invalid_grant");
});

test.each(["kept", "lost"] as const)(
  "identity is killed while a consent is committed, which is %s: what was granted is listed, and the user can begin anew",
  async (outcome) => {
    const identity = await identityProcess();
    const there = await replicas.gatewayBefore(identity.port);
    const clientId = await it.register();
    const begun = await it.begin(clientId);
    const consentChallenge = await it.signIn(begun);
    const body = { consentChallenge, accountId: it.accountId, role: "reader" };
    const held = await holdCommits({ pool: it.pool }, "insert", "oauth_grants", "true");
    const first = it.complete("consent", body, there);
    await held.reached();
    await identity.kill();
    await held.release(outcome);
    expect((await first).status).toBe(503);
    await identity.run();
    expect(of(clientId, await it.grants())).toHaveLength(outcome === "kept" ? 1 : 0);
    const again = await eventually("the retry is answered", async () => {
      const answer = await it.complete("consent", body, there);
      return answer.status !== 503 && answer;
    });
    expect(refusal(again)).toBe("422 challenge_expired");
    // Whoever has no verifier gets no code, whatever was decided.
    const uid = `${it.origin}/oauth2/auth/${consentChallenge}`;
    expect((await begun.go(uid)).location).toContain("/oauth/error");
    const anew = await it.letIn({ clientId, role: "reader" });
    expect(await it.use(anew.token)).toBe(200);
    expect(of(clientId, await it.grants())).toHaveLength(1);
    await it.must("DELETE", `/me/mcp-grants/${clientId}`);
    await eventually("it is refused", async () => (await it.use(anew.token)) === 401);
    expect(of(clientId, await it.grants())).toEqual([]);
  },
);

test.each(["kept", "lost"] as const)(
  "identity is killed while a user lets a device in, which is %s: the device gets what was granted, once",
  async (outcome) => {
    const identity = await identityProcess();
    const there = await replicas.gatewayBefore(identity.port);
    const clientId = "berth-cli";
    const before = of(clientId, await it.grants()).length;
    const { body: asked } = await it.post("/oauth2/device_authorization", { client_id: clientId });
    const decision = { userCode: asked.user_code, accountId: it.accountId, role: "reader" };
    const allow = () => there.call("POST", "/oauth/device/complete", decision);
    const held = await holdCommits({ pool: it.pool }, "insert", "oauth_grants", "true");
    const first = allow();
    await held.reached();
    await identity.kill();
    await held.release(outcome);
    expect((await first).status).toBe(503);
    await identity.run();
    expect(of(clientId, await it.grants())).toHaveLength(outcome === "kept" ? 1 : before);
    const again = await eventually("the retry is answered", async () => {
      const answer = await allow();
      return answer.status !== 503 && answer;
    });
    expect(again.status === 204 ? "204" : refusal(again)).toBe(
      outcome === "kept" ? "422 unknown_code" : "204",
    );
    const poll = { grant_type: "urn:ietf:params:oauth:grant-type:device_code", client_id: clientId };
    const { body } = await it.post("/oauth2/token", { ...poll, device_code: asked.device_code! });
    expect(await it.use(body.access_token!)).toBe(200);
    expect(of(clientId, await it.grants())).toHaveLength(1);
  },
);

test("identity is killed while a consent is committed under an Idempotency-Key: the repeated request goes on", async () => {
  const identity = await identityProcess();
  const there = await replicas.gatewayBefore(identity.port);
  const clientId = await it.register();
  const begun = await it.begin(clientId);
  const consentChallenge = await it.signIn(begun);
  const body = { consentChallenge, accountId: it.accountId, role: "reader" };
  const complete = () =>
    there.call<{ redirectTo: string }>("POST", "/oauth/consent/complete", body, {
      headers: { "idempotency-key": `key-${clientId}` },
    });
  const held = await holdCommits({ pool: it.pool }, "insert", "oauth_grants", "true");
  const first = complete();
  await held.reached();
  await identity.kill();
  await held.release("kept");
  expect((await first).status).toBe(503);
  await identity.run();
  const again = await eventually("the retry is answered", async () => {
    const answer = await complete();
    return answer.status !== 503 && answer;
  });
  expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
  const back = new URL((await begun.go(again.body.redirectTo)).location!);
  const { body: tokens } = await it.redeem(begun, back);
  expect(await it.use(tokens.access_token!)).toBe(200);
  expect(of(clientId, await it.grants())).toHaveLength(1);
});

test("identity is killed between the provider's grant and the consent: what the provider kept is of no use, and expires", async () => {
  const identity = await identityProcess();
  const there = await replicas.gatewayBefore(identity.port);
  const clientId = await it.register();
  const begun = await it.begin(clientId);
  const consentChallenge = await it.signIn(begun);
  const body = { consentChallenge, accountId: it.accountId, role: "editor" };
  const orphans = async () => {
    const text = `select extract(epoch from a.expires_at)::float8 * 1000 as "expiresAtMs" from oauth_artifacts a
      where a.model = 'Grant' and not exists (select from oauth_grants g where g.id = a.grant_id)
      order by a.expires_at desc`;
    return (await it.pool.query<{ expiresAtMs: number }>(text)).rows;
  };
  const before = await orphans();
  const held = await holdCommits(it, "insert", "oauth_artifacts", "new.model = 'Grant'");
  const consent = it.complete("consent", body, there);
  await held.reached();
  await identity.kill();
  await held.release("kept");
  expect((await consent).status).toBe(503);
  expect(await orphans()).toHaveLength(before.length + 1);
  expect(of(clientId, await it.grants())).toEqual([]);
  expect(refusal(await it.complete("consent", body))).toBe("422 challenge_expired");
  for (const url of [`${it.origin}/oauth2/auth/${consentChallenge}`, it.authorizeUrl(clientId).url]) {
    const { location } = await begun.go(url);
    expect(location).not.toContain("code=");
  }
  await sweepOauth(it.pool, new Date());
  const [{ expiresAtMs }] = (await orphans()) as [{ expiresAtMs: number }];
  await sweepOauth(it.pool, new Date(expiresAtMs + 1));
  expect(await orphans()).toEqual([]);
});

test("identity is killed while a code is used: the application is not left with half of its tokens", async () => {
  const identity = await identityProcess();
  const there = await replicas.gatewayBefore(identity.port);
  const clientId = await it.register();
  const begun = await it.begin(clientId);
  const back = await it.allow(begun);
  const held = await holdCommits(
    { pool: it.pool },
    "insert",
    "oauth_artifacts",
    "new.model = 'RefreshToken'",
  );
  const first = it.redeem(begun, back, {}, there.origin);
  await held.reached();
  await identity.kill();
  await held.release("kept");
  expect((await first).status).toBe(503);
  // The code is used up: it ends the grant rather than to leave it to nobody.
  expect((await it.redeem(begun, back)).body.error).toBe("invalid_grant");
  expect(of(clientId, await it.grants())).toEqual([]);
  expect((await it.letIn({ clientId })).token).toBeTruthy();
});

test("a process writes JSON lines alone, whatever browsers and applications send", async () => {
  const identity = await identityProcess();
  const there = await replicas.gatewayBefore(identity.port);
  const clientId = await it.register();
  const { url } = it.authorizeUrl(clientId);
  await browser()(url.replace(it.origin, there.origin), { origin: "https://app.example" });
  const form = { grant_type: "refresh_token", client_id: clientId, refresh_token: "x" };
  for (const path of ["/oauth2/token", "/oauth2/revoke"])
    await fetch(`http://127.0.0.1:${identity.port}${path}`, {
      method: "POST",
      headers: { origin: "https://app.example" },
      body: new URLSearchParams({ ...form, token: "x" }),
    });
  await fetch(`http://127.0.0.1:${identity.port}/oauth2/auth/x?verifier=%`, { redirect: "manual" });
  const lines = identity.lines();
  expect(lines.length).toBeGreaterThan(0);
  for (const line of lines) expect(() => JSON.parse(line), line).not.toThrow();
});

test("an answered challenge stays answered at every replica", async () => {
  const there = await replicas.replica();
  const begun = await it.begin(await it.register());
  const { loginChallenge } = begun;
  const answers = await Promise.all([
    it.complete("login", { loginChallenge }),
    it.complete("login", { loginChallenge }, there),
  ]);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 422]);
  const { redirectTo } = answers.find(({ status }) => status === 200)!.body;
  expect(challengeOf((await begun.go(redirectTo)).location, "consent")).toBeTruthy();
});
