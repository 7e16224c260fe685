import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { holdCommits } from "../../services/deployer/testing/testing-process.ts";
import { fields } from "../../services/identity/config.ts";
import { start } from "../../services/identity/main.ts";
import { createLog } from "../../services/kit/log.ts";
import { readConfig } from "../../services/kit/process/config.ts";
import { freePort } from "../../services/kit/process/free-port.ts";
import { openProxy } from "../../services/kit/testing/proxy.ts";
import { eventually, testKeys } from "../../services/kit/testing/testing.ts";
import { openDoor, refusal } from "../support/door.ts";
import { end } from "../support/launched.ts";
import { browser } from "../support/oauth/browser.ts";
import { challengeOf, type OauthPlatform, oauthPlatform } from "../support/oauth/platform.ts";

let it: OauthPlatform;
const cleanup: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  it = await oauthPlatform();
});
afterEach(async () => {
  for (const step of cleanup.splice(0).reverse()) await step();
});
afterAll(() => it?.stop());

const env = (more: Record<string, string> = {}) => ({
  DATABASE_URL: it.platform.database.url("identity"),
  NATS_URL: it.platform.nats.url,
  INTERNAL_KEYS: testKeys.map((key) => key.toString("base64")).join(),
  PUBLIC_ORIGIN: it.origin,
  LOG_LEVEL: "info",
  ...more,
});

/** A gateway before the identity at this port; users and applications know both gateways by one origin. */
async function gatewayBefore(port: number) {
  const gateway = await it.platform.gateway({
    IDENTITY_URL: `http://127.0.0.1:${port}`,
    PUBLIC_ORIGIN: it.origin,
  });
  cleanup.push(() => gateway.stop());
  const origin = `http://127.0.0.1:${gateway.port}`;
  return openDoor(origin, it.ownerToken);
}

/** One more replica of identity, in this process. */
async function replica(more: Record<string, string> = {}) {
  const running = await start(readConfig(env(more), fields), createLog("identity", "silent"));
  cleanup.push(() => running.stop());
  return gatewayBefore(running.port);
}

/** Identity as a process of its own, which a test can kill. */
async function identityProcess() {
  const port = await freePort();
  let child: ChildProcess | undefined;
  const output: string[] = [];
  const run = async () => {
    child = spawn(process.execPath, [join(import.meta.dirname, "../../services/identity/main.ts")], {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env({ PORT: String(port) }) },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [child.stdout!, child.stderr!])
      stream.on("data", (part: Buffer) => output.push(part.toString()));
    await eventually("identity is ready", () =>
      fetch(`http://127.0.0.1:${port}/readyz`).then(
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
  cleanup.push(() => end(child!, "SIGTERM"));
  await run();
  return { port, run, kill, lines: () => output.join("").split("\n").filter(Boolean) };
}

const of = (clientId: string, grants: Record<string, string>[]) =>
  grants.filter((grant) => grant.clientId === clientId);

test("while the database is away nothing is granted and everybody is told to try again; then the flow goes on", async () => {
  const proxy = await openProxy(new URL(it.platform.database.url("identity")));
  const there = await replica({ DATABASE_URL: proxy.of(it.platform.database.url("identity")) });
  cleanup.push(async () => proxy.cut());
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
  expect([token.status, token.text]).toEqual([502, expect.stringContaining("identity_provider_unavailable")]);
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
  const there = await replica();
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
    const there = await gatewayBefore(identity.port);
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

test("identity is killed while a consent is committed under an Idempotency-Key: the repeated request goes on", async () => {
  const identity = await identityProcess();
  const there = await gatewayBefore(identity.port);
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

test("identity is killed while a code is used: the application is not left with half of its tokens", async () => {
  const identity = await identityProcess();
  const there = await gatewayBefore(identity.port);
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
  expect((await first).status).toBe(502);
  // The code is used up: it ends the grant rather than to leave it to nobody.
  expect((await it.redeem(begun, back)).body.error).toBe("invalid_grant");
  expect(of(clientId, await it.grants())).toEqual([]);
  expect((await it.letIn({ clientId })).token).toBeTruthy();
});

test("a process writes JSON lines alone, whatever browsers and applications send", async () => {
  const identity = await identityProcess();
  const there = await gatewayBefore(identity.port);
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

test("tokens that were signed before a key was replaced work after, and new ones are signed by its successor", async () => {
  const before = await it.letIn();
  const kidOf = (token: string) =>
    (JSON.parse(Buffer.from(token.split(".")[0]!, "base64url").toString()) as { kid: string }).kid;
  const age = (days: number) =>
    it.pool.query("update oauth_keys set created_at = created_at - make_interval(days => $1)", [days]);
  const published = async (at: string) => {
    const { keys } = (await (await fetch(`${at}/.well-known/jwks.json`)).json()) as {
      keys: { kid: string }[];
    };
    return keys.map(({ kid }) => kid);
  };
  await age(89);
  const announcing = await replica();
  const [signing, next] = await published(announcing.origin);
  expect(signing).toBe(kidOf(before.token));
  expect(next).toBeTruthy();
  await age(1);
  const replaced = await replica();
  expect(await published(replaced.origin)).toEqual([next, signing]);
  const refreshed = await it.post(
    "/oauth2/token",
    { grant_type: "refresh_token", client_id: before.clientId, refresh_token: before.refreshToken },
    replaced.origin,
  );
  expect(kidOf(refreshed.body.access_token!)).toBe(next);
  for (const token of [before.token, refreshed.body.access_token!])
    for (const door of [announcing, replaced])
      expect((await door.call("GET", it.A, undefined, { token })).status).toBe(200);
});

test("a flow that is under way goes on at a replica with a new first key, and its tokens work at one with the old", async () => {
  const [old, next] = [env().INTERNAL_KEYS, randomBytes(32).toString("base64")];
  const clientId = await it.register();
  const begun = await it.begin(clientId);
  const changed = await replica({ INTERNAL_KEYS: `${next},${old}` });
  const back = await it.allow(begun, { origin: changed.origin });
  const { body } = await it.redeem(begun, back, {}, changed.origin);
  for (const door of [it, changed])
    expect((await door.call("GET", it.A, undefined, { token: body.access_token! })).status).toBe(200);
  const restored = await replica({ INTERNAL_KEYS: `${old},${next}` });
  const read = await restored.call("GET", it.A, undefined, { token: body.access_token! });
  expect(read.status).toBe(200);
});

test("identity does not start with keys that do not open what signs tokens, and says in one sentence why", async () => {
  const more = { INTERNAL_KEYS: randomBytes(32).toString("base64"), PORT: String(await freePort()) };
  const child = spawn(process.execPath, [join(import.meta.dirname, "../../services/identity/main.ts")], {
    env: { PATH: process.env.PATH, ...env(more) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [output, [code]] = await Promise.all([child.stdout.toArray(), once(child, "exit")]);
  expect(code).toBe(1);
  const said = output
    .join("")
    .split("\n")
    .filter((line) => line.includes("INTERNAL_KEYS"));
  expect(said).toHaveLength(1);
  expect(said[0]).toMatch(
    /The key key_\w+, which signs tokens of OAuth clients, opens with none of INTERNAL_KEYS/,
  );
});

test("an answered challenge stays answered at every replica", async () => {
  const there = await replica();
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
