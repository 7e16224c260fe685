import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fields as gatewayFields } from "../../gateway/config.ts";
import { start as startGateway } from "../../gateway/main.ts";
import { type Upstream, upstreamNames } from "../../gateway/upstreams.ts";
import { createLog } from "../../services/kit/log.ts";
import { createPool, type Pool } from "../../services/kit/postgres/db.ts";
import { readConfig } from "../../services/kit/process/config.ts";
import { holdCommits } from "../../services/kit/testing/hold-commits.ts";
import { openProxy, type TcpProxy } from "../../services/kit/testing/proxy.ts";
import { sample } from "../../services/kit/testing/sample.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Answer, type Door, openDoor, refusal } from "../support/door.ts";
import type { Post } from "../support/posts/effects.ts";
import {
  audited,
  changing,
  keyedRoutes,
  leftOut,
  posts,
  routeOf,
  unhurried,
} from "../support/posts/posts.ts";
import { seededStripe } from "../support/servers/seeded-stripe.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
let stripe: Awaited<ReturnType<typeof seededStripe>>;
/** A second gateway. */
let other: Door & { stop: () => Promise<void> };
/** Proxies between the gateways and the services, and between the services and their databases. */
const toService = {} as Record<Upstream, TcpProxy>;
const toDatabase = {} as Record<Upstream, TcpProxy>;
const pools = {} as Record<Upstream, Pool>;
/** Audit records that must exist once each at the end. */
const owed: { action: string; target: string }[] = [];

beforeAll(async () => {
  let gatewayEnv: Record<string, string> = {};
  stripe = await seededStripe();
  world = await startWorld({ ...unhurried, ...stripe.env }, async (service, env) => {
    if (service !== "gateway") {
      const proxy = await openProxy(new URL(env.DATABASE_URL!));
      toDatabase[service as Upstream] = proxy;
      return { ...env, DATABASE_URL: proxy.of(env.DATABASE_URL!) };
    }
    gatewayEnv = { ...env };
    for (const upstream of upstreamNames) {
      const name = `${upstream.toUpperCase()}_URL`;
      toService[upstream] = await openProxy(new URL(env[name]!));
      gatewayEnv[name] = `http://127.0.0.1:${toService[upstream].port}`;
    }
    return gatewayEnv;
  });
  for (const upstream of upstreamNames) pools[upstream] = createPool(world.database.url(upstream));
  const config = readConfig({ ...gatewayEnv, PORT: "0", PUBLIC_ORIGIN: "" }, gatewayFields);
  const gateway = await startGateway(config, createLog("gateway", "silent"));
  other = { ...(await openDoor(gateway.origin, world.ownerToken)), stop: gateway.stop };
});

afterAll(async () => {
  await other?.stop();
  for (const pool of Object.values(pools)) await pool.end();
  await world?.stop();
  await stripe?.stop();
});

const anyKey = () => randomBytes(8).toString("hex");
const send = (door: Door, { path, body }: Pick<Post, "path" | "body">, key: string) =>
  door.call<never>("POST", path, body, { headers: { "idempotency-key": key } });

/** Checks that the answer is a success and its effect the only one, and remembers the audit record it owes. */
async function oneEffect(name: string, post: Post, answer: Answer<never>): Promise<void> {
  const { success } = routeOf(name);
  expect([answer.status, answer.body]).toEqual([post.made ? success : expect.any(Number), expect.anything()]);
  expect(answer.status).toBeLessThan(300);
  if (post.made) expect(await post.made()).toEqual([post.named(answer.body)]);
  if (post.audited) owed.push({ action: post.audited.action, target: post.audited.target(answer.body) });
}

// Their effect is partly the provider's: oauth-faults.test.ts tells what a retry gets.
const ofOauth = ["CompleteConsent", "CompleteLogin"];

test("every route that takes a key is among these stories", () => {
  const tested = new Set(Object.keys(posts).map((name) => name.split(",")[0]));
  expect([...tested, ...ofOauth, ...leftOut].sort()).toEqual(
    keyedRoutes.map((route) => route.rpc.name).sort(),
  );
});

const names = sample("requests under one key", Object.keys(posts), 10);
const changes = names.filter((name) => changing.includes(name));

describe("the answer of a service is lost", () => {
  test.each(names)("%s: repeated, it is the answer of the one effect, at every gateway", async (name) => {
    const post = await posts[name]!(world);
    const { upstream, rpcPath } = routeOf(name);
    const key = anyKey();
    const lost = toService[upstream].loseAnswer(`POST ${rpcPath} `);
    expect(refusal(await send(world, post, key))).toBe("503 unavailable");
    const answer = await send(world, post, key);
    await oneEffect(name, post, answer);
    expect(await lost).toContain(post.named(answer.body));
    expect(answer.headers.get("idempotent-replayed")).toBe("true");
    const elsewhere = await send(other, post, key);
    expect([elsewhere.status, elsewhere.body]).toEqual([answer.status, answer.body]);
  });
});

describe("the commit's answer is lost", () => {
  test.each(changes)(
    "%s, and it is kept: repeated meanwhile it is told to wait, and then is answered",
    async (name) => {
      const post = await posts[name]!(world);
      const { upstream } = routeOf(name);
      const key = anyKey();
      const held = await holdKeyed(upstream);
      const first = send(world, post, key);
      await cutFrom(toDatabase[upstream], pools[upstream], await held.reached());
      const { status } = await first;
      const meanwhile = await send(other, post, key);
      await held.release("kept");
      expect(status).toBeGreaterThanOrEqual(500);
      expect([refusal(meanwhile), meanwhile.headers.get("retry-after")]).toEqual(["409 conflict", "1"]);
      const answer = await send(world, post, key);
      await oneEffect(name, post, answer);
      expect(answer.headers.get("idempotent-replayed")).toBe("true");
    },
  );

  test.each(changes)("%s, and the change with it: repeated, it is made once", async (name) => {
    const post = await posts[name]!(world);
    const key = anyKey();
    const held = await holdKeyed(routeOf(name).upstream);
    const first = send(world, post, key);
    await held.reached();
    await held.release("lost");
    expect((await first).status).toBeGreaterThanOrEqual(500);
    await oneEffect(name, post, await send(other, post, key));
  });
});

describe("many at once over two gateways", () => {
  test.each(names)("%s: one effect, and one answer for all who get one", async (name) => {
    const post = await posts[name]!(world);
    const key = anyKey();
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, at) => send(at % 2 === 0 ? world : other, post, key)),
    );
    const last = await send(world, post, key);
    await oneEffect(name, post, last);
    for (const answer of answers)
      if (answer.status === 409) expect(refusal(answer)).toBe("409 conflict");
      else expect([answer.status, answer.body]).toEqual([last.status, last.body]);
  });
});

test("a key whose outcome is not known is of no use for another request, nor at another service", async () => {
  const post = await posts.CreateProject!(world);
  const key = anyKey();
  const lost = toService.deployer.loseAnswer(`POST ${routeOf("CreateProject").rpcPath} `);
  await send(world, post, key);
  await lost;
  for (const another of [{ ...post, body: { name: "another" } }, await posts.CreateToken!(world)])
    expect(refusal(await send(other, another, key))).toBe("409 idempotency_key_reused");
});

test("the secret of a token that was made is stored nowhere in the clear", async () => {
  const post = await posts.CreateToken!(world);
  const { body } = await send(world, post, anyKey());
  const { rows } = await pools.identity.query<{ answer: Buffer }>("select answer from kept_answers");
  const stored = rows.map(({ answer }) => answer.toString("latin1")).join();
  expect(stored).not.toBe("");
  expect(stored).not.toContain((body as { token: string }).token);
});

test("each effect is in the audit log once", async () => {
  // Events arrive in order: once these are in the audit log, all before them are.
  for (const name of ["CreateProject", "CreateVariable", "CreateToken"]) {
    const post = await posts[name]!(world);
    const target = post.audited!.target(await world.must("POST", post.path, post.body));
    await eventually(
      `${name} is in the audit log`,
      async () => (await countOf({ ...post.audited!, target })) > 0,
    );
  }
  expect(owed.length).toBeGreaterThanOrEqual(4 * changes.filter((name) => audited.includes(name)).length);
  for (const record of owed)
    expect({ ...record, count: await countOf(record) }).toEqual({ ...record, count: 1 });
});

/** Holds the commits of requests with a key, each of which keeps its answer. */
const holdKeyed = (upstream: Upstream) =>
  holdCommits({ pool: pools[upstream] }, "insert", "kept_answers", "true");

/** Cuts the connections of these backends, which finish what they are doing. */
async function cutFrom(proxy: TcpProxy, pool: Pool, pids: number[]): Promise<void> {
  const text = "select client_port as port from pg_stat_activity where pid = any($1)";
  const { rows } = await pool.query<{ port: number }>(text, [pids]);
  for (const { port } of rows) proxy.cutFrom(port);
}

async function countOf({ action, target }: { action: string; target: string }): Promise<number> {
  const text = "select count(*) as count from audit_events where action = $1 and target = $2";
  const { rows } = await pools.identity.query<{ count: number }>(text, [action, target]);
  return rows[0]!.count;
}
