import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Upstream, upstreamNames } from "../../gateway/upstreams.ts";
import { newId } from "../../services/kit/ids.ts";
import { createPool, type Pool } from "../../services/kit/postgres/db.ts";
import { freePort } from "../../services/kit/process/free-port.ts";
import { holdCommits } from "../../services/kit/testing/hold-commits.ts";
import { sample } from "../../services/kit/testing/sample.ts";
import { nodeEnv } from "../../services/kit/testing/service-process.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Answer, type Door, openDoor, refusal } from "../support/door.ts";
import { end } from "../support/launched.ts";
import type { Post } from "../support/posts/effects.ts";
import { audited, changing, posts, routeOf, unhurried } from "../support/posts/posts.ts";
import { seededStripe } from "../support/servers/seeded-stripe.ts";
import { prepareWorld } from "../support/world.ts";

type Program = Upstream | "gateway" | "other";

let deps: Awaited<ReturnType<typeof prepareWorld>>;
let stripe: Awaited<ReturnType<typeof seededStripe>>;
let door: Door;
/** A client of a second gateway. */
let other: Door;
let otherPort: number;
const processes = new Map<Program, ChildProcess>();
const pools = {} as Record<Upstream | "gateway", Pool>;
/** Action and target of audit records that must exist once each at the end. */
const owed: string[][] = [];

beforeAll(async () => {
  stripe = await seededStripe();
  deps = await prepareWorld({ ...unhurried, ...stripe.env });
  otherPort = await freePort();
  await Promise.all(upstreamNames.map(run));
  await Promise.all((["gateway", "other"] as const).map(run));
  for (const schema of [...upstreamNames, "gateway"] as const)
    pools[schema] = createPool(deps.database.url(schema));
  door = await openDoor(deps.origin, deps.ownerToken);
  other = await openDoor(`http://127.0.0.1:${otherPort}`, deps.ownerToken);
});

afterAll(async () => {
  for (const child of processes.values()) await end(child, "SIGTERM");
  for (const pool of Object.values(pools)) await pool.end();
  await deps?.remove();
  await stripe?.stop();
});

/** Starts a process of the platform as an operator does, and waits until it is ready. */
async function run(program: Program): Promise<void> {
  const isGateway = program === "gateway" || program === "other";
  const env = deps.env(isGateway ? "gateway" : program);
  if (program === "other") env.PORT = String(otherPort);
  const file = resolve(
    import.meta.dirname,
    "../..",
    isGateway ? "gateway" : `services/${program}`,
    "main.ts",
  );
  const child = spawn(process.execPath, [file], {
    env: { ...nodeEnv, ...env, LOG_LEVEL: "error" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  processes.set(program, child);
  // Without a deadline: several processes start at once, and the test has a time limit.
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${program} exited with ${child.exitCode} while starting`);
    const ready = await fetch(`http://127.0.0.1:${env.PORT}/readyz?exclude=events`).then(
      (answer) => answer.ok,
      () => false,
    );
    if (ready) break;
    await delay(50);
  }
}

async function kill(program: Program): Promise<void> {
  const child = processes.get(program)!;
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}

type Sent = { name: string; post: Post; key: string; first: Promise<Answer<never> | undefined> };

/** Prepares requests of these RPCs; the result sends them, each under its own key. A broken one is undefined. */
async function sendAll(names: string[], signal?: AbortSignal): Promise<() => Sent[]> {
  const made: [string, Post][] = [];
  for (const name of names) made.push([name, await posts[name]!(door)]);
  return () =>
    made.map(([name, post]) => {
      const key = newId("key");
      return { name, post, key, first: send(door, post, key, signal).catch(() => undefined) };
    });
}

const send = (client: Door, { path, body }: Post, key: string, signal?: AbortSignal) =>
  client.call<never>("POST", path, body, { headers: { "idempotency-key": key }, ...(signal && { signal }) });

/** Holds the commits of requests with a key, each of which keeps its answer. */
const holdKeyed = (upstream: Upstream) =>
  holdCommits({ pool: pools[upstream] }, "insert", "kept_answers", "true");

/** Repeats a request until it is answered, and checks that the effect of that answer is the only one. */
async function oneEffect({ name, post, key }: Sent, client = door): Promise<Answer<never>> {
  const answer = await eventually(`${name} is answered`, async () => {
    const found = await send(client, post, key);
    const wait = found.status >= 500 || found.headers.has("retry-after");
    return !wait && found;
  });
  expect([name, answer.status < 300, answer.body]).toEqual([name, true, answer.body]);
  if (post.made) expect(await post.made()).toEqual([post.named(answer.body)]);
  if (post.audited) owed.push([post.audited.action, post.audited.target(answer.body)]);
  return answer;
}

const namesOf = (upstream: Upstream) => changing.filter((name) => routeOf(name).upstream === upstream);
const changed = upstreamNames.filter((upstream) => namesOf(upstream).length > 0);

const alternate = (upstream: Upstream, at: number) =>
  namesOf(upstream).filter((_, index) => index % 2 === at);
const together: [Upstream, string[]][] = [
  // Two invitations wait for each other's commit, because both count towards the inviting user's limit.
  ["identity", alternate("identity", 0)],
  ["identity", alternate("identity", 1)],
  ["variables", namesOf("variables")],
  // More than a process has connections for would wait for each other's.
  ["deployer", alternate("deployer", 0)],
  ["deployer", alternate("deployer", 1)],
  ["billing", namesOf("billing")],
  // The second waits for what the first has changed.
  ...namesOf("notifications").map((name): [Upstream, string[]] => ["notifications", [name]]),
];

/** Returns up to two changes of a service that do not wait for each other. */
const sideBySide = (upstream: Upstream) => namesOf(upstream).slice(0, upstream === "notifications" ? 1 : 2);

const killed = sample(
  "kills at commits of requests under a key",
  (["kept", "lost"] as const).flatMap((outcome) =>
    together.map(([upstream, names]) => ({ upstream, names, outcome })),
  ),
  4,
);

test.each(killed)(
  "$upstream is killed at the commits of $names, which are $outcome: repeated, each was made once",
  async ({ upstream, names, outcome }) => {
    const begin = await sendAll(names);
    const held = await holdKeyed(upstream);
    const sent = begin();
    await held.reached(names.length);
    await kill(upstream);
    await held.release(outcome);
    for (const { first } of sent) expect((await first)?.status).toBe(503);
    await run(upstream);
    for (const one of sent) {
      const answer = await oneEffect(one);
      if (outcome === "kept")
        expect([one.name, answer.headers.get("idempotent-replayed")]).toEqual([one.name, "true"]);
    }
  },
  300_000,
);

test.each(sample("kills of the gateway meanwhile", changed, 1))(
  "the gateway is killed while changes of %s are committed: another one answers what was done, after the lease",
  async (upstream) => {
    const names = sideBySide(upstream);
    const begin = await sendAll(names);
    const held = await holdKeyed(upstream);
    const sent = begin();
    await held.reached(names.length);
    await kill("gateway");
    await held.release("kept");
    for (const { post, key, first } of sent) {
      expect(await first).toBeUndefined();
      expect(refusal(await send(other, post, key))).toBe("409 conflict");
    }
    await pools.gateway.query("update idempotency_keys set lease_until = now() where status is null");
    await run("gateway");
    for (const one of sent) {
      const answer = await oneEffect(one, other);
      expect(answer.headers.get("idempotent-replayed")).toBe("true");
      expect((await send(door, one.post, one.key)).body).toEqual(answer.body);
    }
  },
  300_000,
);

test.each(sample("clients that leave meanwhile", changed, 2))(
  "the client goes away while its changes of %s are committed: whoever repeats them learns what was done",
  async (upstream) => {
    const leaving = new AbortController();
    const names = sideBySide(upstream);
    const begin = await sendAll(names, leaving.signal);
    const held = await holdKeyed(upstream);
    const sent = begin();
    await held.reached(names.length);
    leaving.abort();
    await held.release("kept");
    for (const one of sent) expect((await oneEffect(one)).headers.get("idempotent-replayed")).toBe("true");
  },
);

test("each effect is in the audit log once", async () => {
  // Events arrive in order: once these are in the audit log, all before them are.
  for (const name of ["CreateProject", "CreateVariable", "CreateToken"]) {
    const post = await posts[name]!(door);
    const target = post.audited!.target(await door.must("POST", post.path, post.body));
    const record = [post.audited!.action, target];
    await eventually(`${name} is in the audit log`, async () => (await countOf(record)) > 0);
  }
  const due = killed.flatMap(({ names }) => names.filter((name) => audited.includes(name)));
  expect(owed.length).toBeGreaterThanOrEqual(due.length);
  for (const record of owed) expect([...record, await countOf(record)]).toEqual([...record, 1]);
});

async function countOf(record: string[]): Promise<number> {
  const text = "select from audit_events where action = $1 and target = $2";
  return (await pools.identity.query(text, record)).rowCount ?? 0;
}
