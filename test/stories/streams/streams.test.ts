import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { archiveOf as tarOf } from "../../../services/deployer/testing/testing.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { archiveOf, type Deployment, deployArchive, settled } from "../../support/apps.ts";
import { startWorld, type World } from "../../support/world.ts";
import { countCalls, createService, openStream, type StreamOptions } from "./follow.ts";

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
const open = (path: string, options?: StreamOptions) => openStream(world, path, options);
const service = (type: string) => createService(world, type);

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
    const pieces = logs.events.filter(({ event }) => event === "piece").map(({ data }) => data.logs);
    const kept = await world.must<{ logs: string; live: boolean }>("GET", `${S}/deployments/1/build-logs`);
    expect([kept.live, pieces.join("")]).toEqual([false, kept.logs]);
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
    const over = countCalls(world, "FollowLogs");
    const streams = await Promise.all(Array.from({ length: 8 }, () => open(`${S}/logs`)));
    expect(streams.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(countCalls(world, "FollowLogs")).toBe(over);
    for (const stream of streams) stream.close();
    await eventually("all calls are over", async () => countCalls(world, "FollowLogs") === over + 8);
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
