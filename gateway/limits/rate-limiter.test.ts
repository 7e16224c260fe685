import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLog } from "../../services/kit/log.ts";
import { createPool, type Pool } from "../../services/kit/postgres/db.ts";
import { bringIn } from "../../test/support/door.ts";
import type { RateLimitState } from "../http/response.ts";
import { buckets } from "../routing/routes.ts";
import { anyName, refusalOf } from "../testing/api-client.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";
import { createRateLimiter, type Limits, slack } from "./rate-limiter.ts";
import { addRateCounts } from "./sql.ts";

let platform: TestPlatform;
let pool: Pool;
let unlimited: Awaited<ReturnType<TestPlatform["gateway"]>>;
let A: string;

beforeAll(async () => {
  platform = await testPlatform({
    catalog: { listProjects: () => ({}), createProject: () => ({}) },
    variables: {
      revealVariable: () => ({}),
      revealResolvedVariables: () => ({}),
      batchVariables: () => ({}),
    },
  });
  pool = createPool(platform.database.url("gateway"));
  unlimited = await platform.gateway();
  const accounts = await unlimited.call("GET", "/accounts");
  A = `/accounts/${(accounts.body.data as { id: string }[])[0]!.id}`;
});

afterAll(async () => {
  await pool.end();
  await platform.stop();
});

const limited = (extra: Record<string, string>) => platform.gateway({ RATE_LIMITS: "on", ...extra });

/** A new user, and how to get more of a user's tokens. */
async function newUser(role: "reader" | "editor" = "editor"): Promise<string> {
  return (await bringIn(unlimited.call, A, role)).token;
}
const newToken = async (token: string) =>
  String((await unlimited.call("POST", "/me/tokens", { name: anyName("t") }, { token })).body.token);

describe("limits per user", () => {
  test("one gateway admits exactly the limit, and says what is left and when to come back", async () => {
    const { call } = await limited({ RATE_LIMIT_READS: "40" });
    const token = await newUser();
    const answers = await Promise.all(
      Array.from({ length: 60 }, () => call("GET", "/accounts", undefined, { token })),
    );
    const admitted = answers.filter((answer) => answer.status === 200);
    expect(admitted.length).toBe(40);
    const left = admitted.map((answer) => Number(answer.headers.get("ratelimit-remaining")));
    expect([Math.max(...left), Math.min(...left)]).toEqual([39, 0]);
    const refused = answers.find((answer) => answer.status !== 200)!;
    expect(refusalOf(refused)).toBe("429 rate_limited");
    expect(refused.headers.get("ratelimit-limit")).toBe("40");
    expect(refused.headers.get("ratelimit-remaining")).toBe("0");
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(refused.headers.get("retry-after")).toBe(refused.headers.get("ratelimit-reset"));
    const another = await call("GET", "/accounts", undefined, { token: await newToken(token) });
    expect(refusalOf(another)).toBe("429 rate_limited");
    const fresh = await call("GET", "/accounts", undefined, { token: await newUser() });
    expect(fresh.status).toBe(200);
  });

  test("two gateways count together: at most 5 % each above the limit", async () => {
    const env = { RATE_LIMIT_READS: "100" };
    const gateways = await Promise.all([limited(env), limited(env)]);
    const token = await newUser();
    const answers = await Promise.all(
      Array.from({ length: 300 }, (_, i) => gateways[i % 2]!.call("GET", "/accounts", undefined, { token })),
    );
    const admitted = answers.filter((answer) => answer.status === 200).length;
    expect(admitted).toBeGreaterThanOrEqual(100);
    expect(admitted).toBeLessThanOrEqual(100 + 2 * slack(100));
    for (const { call } of gateways)
      expect(refusalOf(await call("GET", "/accounts", undefined, { token }))).toBe("429 rate_limited");
  });

  test("reads, writes, reveals and batches are counted apart", async () => {
    const { call } = await limited({
      RATE_LIMIT_READS: "1",
      RATE_LIMIT_WRITES: "1",
      RATE_LIMIT_REVEALS: "1",
      RATE_LIMIT_SET_REVEALS: "1",
      RATE_LIMIT_BATCHES: "1",
    });
    const token = await newUser();
    const requests = [
      ["GET", `${A}/projects`],
      ["POST", `${A}/projects`, { name: "x" }],
      ["POST", `${A}/projects/prj_p/variables/X/reveal`],
      ["POST", `${A}/projects/prj_p/environments/env_e/services/s/resolved-variables/reveal`],
      ["POST", `${A}/projects/prj_p/variables/batch`, {}],
    ] as const;
    const statuses = [];
    for (const round of [1, 2])
      for (const [method, path, body] of requests)
        statuses.push(`${round} ${(await call(method, path, body, { token })).status}`);
    const first = ["1 200", "1 201", "1 200", "1 200", "1 200"];
    expect(statuses).toEqual([...first, ...first.map(() => "2 429")]);
  });

  test("a limit holds before a role is looked at, and not before a token is", async () => {
    const { call } = await limited({ RATE_LIMIT_READS: "1" });
    const token = await newUser();
    const ask = async (by: string) =>
      refusalOf(await call("GET", "/accounts/acc_x", undefined, { token: by }));
    expect([await ask(token), await ask(token)]).toEqual(["403 forbidden", "429 rate_limited"]);
    expect(await ask("")).toBe("401 unauthenticated");
  });
});

test("many tokens are one user: together they have what one has, and what is left is true of each", async () => {
  const { call } = await limited({ RATE_LIMIT_READS: "40" });
  const token = await newUser();
  const tokens = [token, ...(await Promise.all(Array.from({ length: 5 }, () => newToken(token))))];
  const left: string[] = [];
  for (let n = 0; n < 48; n++) {
    const answer = await call("GET", "/accounts", undefined, { token: tokens[n % tokens.length]! });
    left.push(`${answer.status} ${answer.headers.get("ratelimit-remaining")}`);
  }
  expect(left.slice(0, 40)).toEqual(Array.from({ length: 40 }, (_, n) => `200 ${39 - n}`));
  expect(new Set(left.slice(40))).toEqual(new Set(["429 0"]));
});

test("members of an account have so many users' limits together; strangers use up none of it", async () => {
  const { call } = await limited({ RATE_LIMIT_READS: "20", RATE_LIMIT_ACCOUNT_TIMES: "2" });
  const { body } = await unlimited.call("POST", "/accounts", { handle: anyName("h") });
  const account = `/accounts/${body.id}`;
  const join = async () => (await bringIn(unlimited.call, account, "reader")).token;
  const [users, stranger] = [[await join(), await join(), await join()], await newUser()];
  const read = async (token: string) => {
    const { status, headers } = await call("GET", `${account}/projects`, undefined, { token });
    return `${status} ${headers.get("ratelimit-limit")} ${headers.get("ratelimit-remaining")}`;
  };
  for (let n = 0; n < 20; n++) expect(await read(stranger)).toBe(`403 20 ${19 - n}`);
  for (const token of users.slice(0, 2))
    for (let n = 0; n < 19; n++) expect(await read(token)).toMatch(/^200 /);
  expect(await read(users[2]!)).toBe("200 40 1");
  expect(await read(users[2]!)).toBe("200 40 0");
  const full = await call("GET", `${account}/projects`, undefined, { token: users[2]! });
  expect(refusalOf(full)).toBe("429 rate_limited");
  expect((full.body.error as { message: string }).message).toMatch(/in this account: 40 a minute/);
  expect((await call("GET", "/me", undefined, { token: users[2]! })).status).toBe(200);
});

test("making a token has a limit of its own", async () => {
  const { call } = await limited({ RATE_LIMIT_NEW_TOKENS: "2" });
  const token = await newUser();
  const make = async () => (await call("POST", "/me/tokens", { name: "t" }, { token })).status;
  expect([await make(), await make(), await make()]).toEqual([201, 201, 429]);
  expect((await call("DELETE", "/me/tokens/tok_x", undefined, { token })).status).toBe(404);
});

test("each purpose of public routes is limited by itself, per address: who uses up one closes no other", async () => {
  const { call, origin } = await limited({ RATE_LIMIT_PUBLIC: "2", TRUST_PROXY: "loopback" });
  const headers = { "x-forwarded-for": "198.51.100.77" };
  const options = { token: "", headers };
  const ask: Record<string, () => Promise<number>> = {
    loginRequest: async () =>
      (await call("GET", "/oauth/login-request?challenge=c", undefined, options)).status,
    signIn: async () =>
      (await call("POST", "/sessions", { email: "a@b.example", password: "x" }, options)).status,
    passwordReset: async () => (await call("POST", "/password-resets", { email: "x" }, options)).status,
    link: async () => (await call("POST", "/invitations/open", { token: "t" }, options)).status,
    unsubscription: async () => (await call("GET", "/unsubscriptions/t", undefined, options)).status,
    authorization: async () =>
      (await fetch(`${origin}/oauth2/auth?client_id=c`, { headers, redirect: "manual" })).status,
  };
  for (const [purpose, one] of Object.entries(ask)) {
    const statuses = [await one(), await one(), await one()];
    expect([purpose, statuses.map((status) => status === 429)]).toEqual([purpose, [false, false, true]]);
  }
});

test("public routes are limited per address", async () => {
  const { call } = await limited({ RATE_LIMIT_PUBLIC: "3", TRUST_PROXY: "loopback" });
  const signIn = async (ip: string) => {
    const headers = { "x-forwarded-for": ip };
    const body = { email: `${anyName("u")}@example.com`, password: "x" };
    return (await call("POST", "/sessions", body, { token: "", headers })).status;
  };
  const statuses = [];
  for (let i = 0; i < 4; i++) statuses.push(await signIn("2001:db8:1:2::1"));
  expect(statuses).toEqual([401, 401, 401, 429]);
  expect(await signIn("2001:db8:1:2:ffff::9")).toBe(429);
  expect(await signIn("2001:db8:1:3::1")).toBe(401);
});

describe("the limiter", () => {
  const log = createLog("test", "silent");
  const off = Object.fromEntries(buckets.map((bucket) => [bucket, 0])) as Limits;
  const limits = (reads: number): Limits => ({ ...off, reads });
  const own = (add: Parameters<typeof createRateLimiter>[0]["add"], reads: number) => {
    const clock = { ms: 0 };
    return { clock, ...createRateLimiter({ limits: limits(reads), add, log, now: () => clock.ms }) };
  };

  async function admittedOf(
    states: (RateLimitState | undefined | Promise<RateLimitState>)[],
  ): Promise<number> {
    return (await Promise.all(states)).filter((verdict) => verdict!.allowed).length;
  }

  test("many requests are one statement, and most wait for none", async () => {
    let statements = 0;
    const add = (counts: Parameters<typeof addRateCounts>[1]) => {
      statements++;
      return addRateCounts(pool, counts);
    };
    const limiter = own(add, 600);
    const states = Array.from({ length: 30 }, () => limiter.consume("reads", anyName("s")));
    expect(states.every((verdict) => !(verdict instanceof Promise))).toBe(true);
    await limiter.stop();
    expect(statements).toBe(1);
  });

  test("a minute later everything is admitted again", async () => {
    const limiter = own(
      (counts) =>
        addRateCounts(
          pool,
          counts.map((count) => ({ ...count, windowMs: 1 })),
        ),
      2,
    );
    const subject = anyName("s");
    const consume = () => admittedOf([limiter.consume("reads", subject)]);
    expect([await consume(), await consume()]).toEqual([1, 1]);
    await limiter.stop();
    limiter.clock.ms += 60_001;
    expect(await consume()).toBe(1);
  });

  test("while the store is away it counts for itself", async () => {
    const limiter = own(() => Promise.reject(new Error("away")), 10);
    const subject = anyName("s");
    expect(await admittedOf(Array.from({ length: 25 }, () => limiter.consume("reads", subject)))).toBe(10);
  });

  test("0 is no limit", () => {
    expect(own(() => Promise.resolve([]), 0).consume("reads", "s")).toBeUndefined();
  });
});
