import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { archiveOf as tarOf } from "../../services/deployer/testing/testing.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { archiveOf, type Deployment, deployArchive, settled } from "../support/apps.ts";
import { refusal } from "../support/door.ts";
import { openEvents } from "../support/events.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
let dir: string;

beforeAll(async () => {
  [world, dir] = await Promise.all([startWorld(), mkdtemp(join(tmpdir(), "berth-streams-"))]);
});

afterAll(async () => {
  await world.stop();
  await rm(dir, { recursive: true, force: true });
});

type Line = { message: string; stream: string; version: number };
type Options = { lastEventId?: string; token?: string; accept?: string };

const open = (path: string, options: Options = {}) =>
  openEvents(world.baseUrl + path, { token: world.ownerToken, ...options });

/** A service of this type without a deployment. */
async function service(type: string, name: string = type): Promise<string> {
  const { E, S } = await world.environment();
  await world.must("POST", `${E}/services`, { name, type });
  return S(name);
}

/** Counts on both outputs for as long as it runs. */
const counting = () =>
  tarOf({
    "package.json": JSON.stringify({ name: "counting", scripts: { start: "node server.js" } }),
    "server.js": `let n = 0; setInterval(() => { console.log("tick " + ++n); if (n % 5 === 0) console.error("fifth " + n); }, 10);`,
  });

/** Builds until the file is there. */
const waitingFor = (file: string) =>
  tarOf({
    "package.json": JSON.stringify({
      name: "slow",
      scripts: {
        build: `echo "first half" && node wait.js && echo "second half"`,
        start: "node server.js",
      },
    }),
    "wait.js": `const { existsSync } = require("node:fs");
      const timer = setInterval(() => existsSync(${JSON.stringify(file)}) && clearInterval(timer), 20);`,
    "server.js": `require("node:http").createServer((_, res) => res.end("ok")).listen(process.env.PORT);`,
  });

/** How often a method of the deployer was called, and how many of the calls are over. */
const finished = (method: string) =>
  world.logLines.filter((line) => line.includes(`DeploymentService/${method}"`) && line.includes('"rpc"'))
    .length;

const numbersOf = (events: { data: unknown }[]) =>
  events.map(({ data }) => Number((data as Line).message.split(" ")[1]));
const upTo = (from: number, count: number) => Array.from({ length: count }, (_, n) => from + n);

describe("a build's log", () => {
  test("is followed while it builds to its end, and says the same as the kept log", async () => {
    const [S, go] = [await service("web"), join(dir, "go-1")];
    await deployArchive(world, S, await waitingFor(go));
    const logs = await open(`${S}/deployments/1/build-logs`);
    expect([logs.status, logs.headers["content-type"]]).toEqual([200, "text/event-stream; charset=utf-8"]);
    expect([logs.headers["cache-control"], logs.headers["x-request-id"]]).toEqual([
      "no-store",
      expect.stringMatching(/^req_/),
    ]);
    type Piece = { logs: string };
    const first = await logs.until<Piece>("half is built", ({ data }) => /^first half$/m.test(data.logs));
    expect(logs.isEnded()).toBe(false);
    expect((await world.must<{ live: boolean }>("GET", `${S}/deployments/1/build-logs`)).live).toBe(true);
    await writeFile(go, "");
    await logs.ended();
    expect(logs.events.at(-1)).toMatchObject({ event: "end", data: { outcome: "built" } });
    const told = logs.events.filter(({ event }) => event === "piece").map(({ data }) => data.logs);
    const kept = await world.must<{ logs: string; live: boolean }>("GET", `${S}/deployments/1/build-logs`);
    expect([kept.live, told.join("")]).toEqual([false, kept.logs]);
    expect(kept.logs).toMatch(/^second half$/m);

    const rest = await open(`${S}/deployments/1/build-logs`, { lastEventId: first.id });
    await rest.ended();
    expect(rest.events).toEqual(logs.events.slice(logs.events.indexOf(first) + 1));
    await settled(world, S, 1);
  });

  test("ends when a newer deployment takes over", async () => {
    const S = await service("web");
    await deployArchive(world, S, await waitingFor(join(dir, "never")));
    const logs = await open(`${S}/deployments/1/build-logs`);
    await logs.until<{ logs: string }>("it builds", ({ data }) => data.logs.includes("first half"));
    await deployArchive(world, S, await archiveOf("static"));
    await logs.ended();
    expect(logs.events.at(-1)).toMatchObject({ event: "end", data: { outcome: "superseded" } });
    await settled(world, S, 2);
  });
});

describe("runtime logs", () => {
  test("are followed from before the first deployment, and resumed without loss or repetition", async () => {
    const S = await service("worker");
    const before = await open(`${S}/logs?stream=stdout`);
    expect([before.status, before.events]).toEqual([200, []]);
    await deployArchive(world, S, await counting());
    await eventually("some lines came", async () => before.events.length >= 20);
    before.close();
    const last = before.events.at(-1)!;
    expect(numbersOf(before.events)).toEqual(upTo(1, before.events.length));

    let [seen, at] = [before.events.length, last.id];
    for (let round = 0; round < 3; round++) {
      const next = await open(`${S}/logs?stream=stdout`, { lastEventId: at });
      await eventually("more lines came", async () => next.events.length >= 20);
      next.close();
      expect(numbersOf(next.events)).toEqual(upTo(seen + 1, next.events.length));
      [seen, at] = [seen + next.events.length, next.events.at(-1)!.id];
    }
  });

  test("begin with the newest lines and keep to the filters of the list", async () => {
    const S = await service("worker");
    await deployArchive(world, S, await counting());
    await eventually("some lines are there", async () => {
      const { data } = await world.must<{ data: Line[] }>("GET", `${S}/logs?stream=stderr`);
      return data.length >= 3;
    });
    const fifths = await open(`${S}/logs?stream=stderr&version=1&limit=2`);
    await eventually("old and new lines came", async () => fifths.events.length >= 5);
    fifths.close();
    const numbers = numbersOf(fifths.events);
    expect(numbers).toEqual(upTo(0, numbers.length).map((n) => numbers[0]! + 5 * n));
    expect(numbers[0]).toBeGreaterThanOrEqual(10);
    expect(fifths.events[0]).toMatchObject({ event: "line", data: { stream: "stderr", version: 1 } });

    const since = new Date().toISOString();
    const newer = await open(`${S}/logs?since=${since}`);
    const first = await newer.until<Line & { timestamp: string }>("something is written", () => true);
    newer.close();
    expect(first.data.timestamp >= since).toBe(true);
    const none = await open(`${S}/logs?version=9`);
    expect(none.status).toBe(200);
    none.close();
  });

  test("a client that goes away leaves no call behind it", async () => {
    const S = await service("worker");
    const over = finished("FollowLogs");
    const streams = await Promise.all(Array.from({ length: 8 }, () => open(`${S}/logs`)));
    expect(streams.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(finished("FollowLogs")).toBe(over);
    for (const stream of streams) stream.close();
    await eventually("all calls are over", async () => finished("FollowLogs") === over + 8);
  });

  test("end with a problem when the service is deleted", async () => {
    const S = await service("worker");
    const logs = await open(`${S}/logs`);
    expect((await world.call("DELETE", S)).status).toBeLessThan(300);
    await logs.ended();
    expect(logs.events).toMatchObject([{ event: "problem", data: { error: { code: "not_found" } } }]);
  });
});

describe("a deployment's states", () => {
  type State = Deployment;

  test("come from queued to healthy, each once, and can be resumed in the middle", async () => {
    const [S, go] = [await service("web"), join(dir, "go-states")];
    await deployArchive(world, S, await waitingFor(go));
    const states = await open(`${S}/deployments/1/events`);
    await states.until("it tells how far it is", ({ event }) => event === "progress");
    await writeFile(go, "");
    await states.ended();
    const moves = states.events.filter(({ event }) => event === "state") as unknown as {
      id: string;
      data: State;
    }[];
    expect(moves.map(({ data }) => [data.status, data.healthyAt !== undefined])).toEqual([
      ["queued", false],
      ["building", false],
      ["built", false],
      ["applied", false],
      ["applied", true],
    ]);
    expect(states.events.at(-1)).toMatchObject({ event: "end", data: { outcome: "healthy" } });
    expect(moves.at(-1)!.data).toEqual(await world.must("GET", `${S}/deployments/1`));

    const resumed = await open(`${S}/deployments/1/events`, { lastEventId: moves[2]!.id });
    await resumed.ended();
    const after = states.events.findIndex(({ id }) => id === moves[2]!.id);
    expect(resumed.events).toEqual(states.events.slice(after + 1));
  });

  test("end with a failure that says why", async () => {
    const S = await service("web");
    await world.must("POST", `${S}/deploy`, { image: "docker.io/library/nginx:1" });
    const states = await open(`${S}/deployments/1/events`);
    await states.ended();
    const [before, end] = states.events.slice(-2);
    expect(before).toMatchObject({
      event: "state",
      data: { status: "failed", errors: [{ stage: "apply" }] },
    });
    expect(end).toMatchObject({ event: "end", data: { outcome: "failed" } });
  });
});

describe("who may follow", () => {
  test("a revoked token ends its streams, and leaves those of others", async () => {
    const S = await service("worker");
    const made = await world.must<{ id: string; token: string }>("POST", "/me/tokens", { name: "follower" });
    const [mine, other] = await Promise.all([open(`${S}/logs`, { token: made.token }), open(`${S}/logs`)]);
    const over = finished("FollowLogs");
    await world.must("DELETE", `/me/tokens/${made.id}`);
    await mine.ended();
    expect(mine.events).toMatchObject([{ event: "problem", data: { error: { code: "unauthenticated" } } }]);
    await eventually("its call is over", async () => finished("FollowLogs") === over + 1);
    expect(other.isEnded()).toBe(false);
    other.close();
  });

  test("a member who is removed follows no longer", async () => {
    const S = await service("worker");
    const reader = await world.member("reader");
    const logs = await open(`${S}/logs`, { token: reader.token });
    expect(logs.status).toBe(200);
    await world.must("DELETE", `${world.A}/members/${reader.userId}`);
    await logs.ended();
    expect(logs.events).toMatchObject([{ event: "problem", data: { error: { code: "forbidden" } } }]);
  });
});

test("what does not ask for events gets JSON, as before", async () => {
  const S = await service("worker");
  for (const accept of [
    "application/json",
    "*/*",
    "text/html",
    "application/json, text/event-stream;q=0.5",
  ]) {
    const answer = await open(`${S}/logs`, { accept });
    await answer.ended();
    expect([answer.headers["content-type"], JSON.parse(answer.text())]).toEqual([
      "application/json; charset=utf-8",
      { data: [], page: { nextCursor: "", hasMore: false } },
    ]);
  }
});

test("what is refused before the first event is refused in the envelope", async () => {
  const S = await service("worker");
  const events = { accept: "text/event-stream" };
  const get = async (path: string, more: Record<string, string> = {}, token?: string) =>
    refusal(await world.call("GET", path, undefined, { headers: { ...events, ...more }, token }));
  expect(await get(`${S}/deployments/1/build-logs`)).toBe("404 not_found");
  expect(await get(`${S}/deployments/1/events`)).toBe("404 not_found");
  expect(await get(`${S}-other/logs`)).toBe("404 not_found");
  expect(await get(`${S}/logs?stream=both`)).toBe("422 invalid_choice");
  expect(await get(`${S}/logs?limit=1001`)).toBe("422 out_of_range");
  expect(await get(`${S}/logs?lastEventId=x`)).toBe("422 unknown_field");
  expect(await get(`${S}/logs`, {}, "nonsense")).toBe("401 unauthenticated");
  await world.must("POST", `${S}/deploy`, { image: "docker.io/library/nginx:1" });
  expect(await get(`${S}/deployments/1/build-logs`)).toBe("404 not_found");
  expect(await get(`${S}/deployments/1/events`, { "last-event-id": "x" })).toBe("400 malformed_request");
});
