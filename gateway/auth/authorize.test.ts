import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeToken } from "../../services/kit/crypto/bearer-token.ts";
import { openProxy } from "../../services/kit/testing/proxy.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { bringIn } from "../../test/support/door.ts";
import { allRoutes } from "../routing/routes.ts";
import { anyName, refusalOf } from "../testing/api-client.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";
import { createAuth } from "./authorize.ts";
import { type CachedCaller, createCallerCache } from "./caller-cache.ts";

let platform: TestPlatform;
let one: Awaited<ReturnType<TestPlatform["gateway"]>>;
let other: typeof one;
let A: string;

beforeAll(async () => {
  platform = await testPlatform({
    catalog: { listProjects: () => ({}), createProject: () => ({ id: "prj_1" }) },
  });
  [one, other] = await Promise.all([platform.gateway(), platform.gateway()]);
  const accounts = await one.call("GET", "/accounts");
  A = `/accounts/${(accounts.body.data as { id: string }[])[0]!.id}`;
});

afterAll(() => platform.stop());

const member = (role: "reader" | "editor" | "owner") => bringIn(one.call, A, role);

async function token(options: object): Promise<{ id: string; token: string }> {
  const made = await one.call("POST", "/me/tokens", { name: "t", ...options });
  return made.body as never;
}

describe("401", () => {
  const wrong = "invalid_token";
  const jwt = (claims: object) =>
    [{ alg: "ES256", typ: "at+jwt" }, { iss: one.origin, ...claims }, {}]
      .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
      .join(".");
  test.each<[string, () => string | undefined, string, RegExp]>([
    ["no header", () => undefined, "", /needs the header Authorization/],
    ["another scheme", () => "Basic b3duZXI6cHc=", "", /must be the word Bearer, a space, and the token/],
    [
      "a token without its scheme",
      () => makeToken("pat"),
      "",
      /must be the word Bearer, a space, and the token/,
    ],
    ["no token", () => "Bearer ", "", /no token after Bearer/],
    ["two tokens", () => `Bearer ${makeToken("pat")} ${makeToken("pat")}`, wrong, /must be one token/],
    ["a token in quotation marks", () => `Bearer "${makeToken("pat")}"`, wrong, /without quotation marks/],
    [
      "mistyped check digits",
      () => `Bearer berth_pat_${"a".repeat(36)}`,
      wrong,
      /Copy it again, up to its last/,
    ],
    [
      "a token that was cut off",
      () => `Bearer ${makeToken("pat").slice(0, -1)}`,
      wrong,
      /Copy it again, up to its last/,
    ],
    [
      "an access token from elsewhere",
      () => `Bearer ${jwt({ iss: "https://a.example", exp: 1 })}`,
      wrong,
      /not a token of this/,
    ],
    [
      "an access token that has expired",
      () => `Bearer ${jwt({ exp: 1 })}`,
      wrong,
      /has expired\. Get another one with/,
    ],
    [
      "a token nobody gave out",
      () => `Bearer ${makeToken("pat")}`,
      wrong,
      /not known here, has expired, or was revoked/,
    ],
  ])("%s: with what is wrong, and where clients get a token", async (_, header, error, sentence) => {
    const authorization = header();
    const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
    const answer = await one.call("GET", "/me", undefined, { token: "", headers });
    expect(refusalOf(answer)).toBe("401 unauthenticated");
    expect(answer.body.error.message).toMatch(sentence);
    const metadata = `${one.origin}/.well-known/oauth-protected-resource/v1`;
    expect(answer.headers.get("www-authenticate")).toBe(
      `Bearer resource_metadata="${metadata}", scope="platform:read"${error && `, error="${error}"`}`,
    );
  });

  test("a token that was revoked and one that never was get one answer", async () => {
    const made = await token({});
    await one.call("DELETE", `/me/tokens/${made.id}`);
    const revoked = await one.call("GET", "/me", undefined, { token: made.token });
    const guessed = await one.call("GET", "/me", undefined, { token: makeToken("pat") });
    expect(revoked.body.error.message).toBe(guessed.body.error.message);
    expect(revoked.body.error.code).toBe("unauthenticated");
  });

  test("somebody who opens the API in a browser reads where to go", async () => {
    const headers = { accept: "text/html,application/xhtml+xml" };
    const answer = await one.call("GET", "/accounts", undefined, { token: "", headers });
    expect(refusalOf(answer)).toBe("401 unauthenticated");
    expect(answer.body.error.message).toMatch(/Berth's API, for programs.*\/docs.*\/profile/);
    const program = await one.call("GET", "/accounts", undefined, { token: "" });
    expect(program.body.error.message).not.toContain("/profile");
  });

  test("a public route takes no notice of a token", async () => {
    const body = { email: "nobody@example.com", password: "x" };
    const answer = await one.call("POST", "/sessions", body, { token: "nonsense" });
    expect(answer.body.error.message).not.toMatch(/Authorization/);
  });
});

test("identity is asked once more when the connection to it breaks", async () => {
  const identity = `http://127.0.0.1:${platform.identityPort}`;
  const way = await openProxy(new URL(identity));
  const gateway = await platform.gateway({ IDENTITY_URL: way.of(identity) });
  const lost = way.loseAnswer("/LookupCaller");
  expect((await gateway.call("GET", `${A}/projects`)).status).toBe(200);
  await lost;
  await gateway.stop();
  way.shut();
});

describe("403", () => {
  test("an account of others and one that does not exist get one answer", async () => {
    const { token } = await member("reader");
    const theirs = await one.call("POST", "/accounts", { handle: anyName("h") });
    const foreign = await one.call("GET", `/accounts/${theirs.body.id}/projects`, undefined, { token });
    const nowhere = await one.call("GET", "/accounts/acc_nowhere/projects", undefined, { token });
    expect([refusalOf(foreign), refusalOf(nowhere)]).toEqual(["403 forbidden", "403 forbidden"]);
    expect(foreign.body.error.message).toBe(nowhere.body.error.message);
    expect(foreign.body.error).not.toHaveProperty("requiredRole");
  });

  test("a handle in place of an account's id is told apart, whether there is such an account or not", async () => {
    const { body } = await one.call("POST", "/accounts", { handle: anyName("h") });
    const messages = await Promise.all(
      [body.handle, "nobody-has-this", body.handle].map(async (handle, n) => {
        const { token } = n < 2 ? { token: undefined } : await member("reader");
        const answer = await one.call(
          "GET",
          `/accounts/${handle}/projects`,
          undefined,
          token ? { token } : {},
        );
        expect(refusalOf(answer)).toBe("403 forbidden");
        return answer.body.error.message;
      }),
    );
    expect(new Set(messages).size).toBe(1);
    expect(messages[0]).toMatch(/needs the account's id, which begins with acc_, not its handle/);
  });

  test("a role that is too low names the one that is needed", async () => {
    const { token } = await member("reader");
    expect((await one.call("GET", `${A}/projects`, undefined, { token })).status).toBe(200);
    const write = await one.call("POST", `${A}/projects`, { name: "x" }, { token });
    expect(refusalOf(write)).toBe("403 forbidden");
    expect(write.body.error.requiredRole).toBe("editor");
  });

  test("a token with a role cap stays below it, one bound to an account stays inside", async () => {
    const capped = await token({ roleCap: "reader" });
    const write = (by: { token: string }, at: string) =>
      one.call("POST", `${at}/projects`, { name: "x" }, { token: by.token });
    expect(refusalOf(await write(capped, A))).toBe("403 forbidden");
    const second = `/accounts/${(await one.call("POST", "/accounts", { handle: anyName("h") })).body.id}`;
    const bound = await token({ accountId: second.split("/")[2] });
    expect((await write(bound, second)).status).toBe(201);
    expect(refusalOf(await write(bound, A))).toBe("403 forbidden");
  });
});

test("a machine is refused where users are asked for", async () => {
  const callers = createCallerCache({ findCaller: async () => undefined, keys: [Buffer.alloc(32)] });
  const auth = createAuth({ callers, faultOf: () => undefined, consoleOrigin: () => undefined });
  const route = allRoutes().find(({ rpc }) => rpc.name === "CreateToken")!;
  const caller: CachedCaller = {
    kind: "machine",
    userId: "mch_1",
    tokenId: "tok_1",
    asOf: 0,
    roles: new Map(),
    boundTo: undefined,
    roleCap: undefined,
    toolsOnly: false,
    signedHeaders: new Map(),
  };
  expect(auth.authorize(route, { caller, token: "", cacheKey: "" }, undefined, 0)).toMatchObject({
    status: 403,
    code: "machine_actor_forbidden",
  });
});

describe("what changes holds at once", () => {
  test("an account just made, on a gateway that has the caller cached", async () => {
    await other.call("GET", "/me");
    const made = await one.call("POST", "/accounts", { handle: anyName("h") });
    expect((await other.call("GET", `/accounts/${made.body.id}/projects`)).status).toBe(200);
  });

  test("a role just granted", async () => {
    const { userId, token } = await member("reader");
    const write = () => other.call("POST", `${A}/projects`, { name: "x" }, { token });
    expect(refusalOf(await write())).toBe("403 forbidden");
    await one.call("PATCH", `${A}/members/${userId}`, { role: "editor" });
    expect((await write()).status).toBe(201);
  });

  test("what is taken away is refused by the very next request at the same gateway", async () => {
    const { userId, token } = await member("editor");
    const write = async () => (await one.call("POST", `${A}/projects`, { name: "x" }, { token })).status;
    const read = async () => (await one.call("GET", `${A}/projects`, undefined, { token })).status;
    expect(await write()).toBe(201);
    await one.call("PATCH", `${A}/members/${userId}`, { role: "reader" });
    expect([await write(), await read()]).toEqual([403, 200]);
    await one.call("DELETE", `${A}/members/${userId}`);
    expect(await read()).toBe(403);
    expect((await one.call("DELETE", "/sessions", undefined, { token })).status).toBe(204);
    expect(await read()).toBe(401);
  });

  test("and at every other gateway when the event arrives", async () => {
    const { id, token: text } = await token({});
    const status = async () => (await other.call("GET", "/me", undefined, { token: text })).status;
    expect(await status()).toBe(200);
    await one.call("DELETE", `/me/tokens/${id}`);
    await eventually("the other gateway refuses the token", async () => (await status()) === 401);
  });
});
