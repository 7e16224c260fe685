import type { ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DeploymentService } from "../../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { ProblemSchema } from "../../../../proto/gen/berth/options/v1/options_pb.ts";
import { ServerReflection } from "../../../../proto/gen/grpc/reflection/v1/reflection_pb.ts";
import { createLog } from "../../log.ts";
import { type RunningServer, type ServerOptions, serve } from "../../process/server.ts";
import { clientAs, eventually, testKeys } from "../../testing/testing.ts";
import { CALLER_HEADER, type Caller, signCaller } from "../caller-token.ts";
import { who } from "../interceptor.ts";
import { notFound, unavailable } from "../refusals.ts";

const reader: Partial<Caller> = { accountId: "acc_1", role: "reader" };
const path = { accountId: "acc_1", projectId: "prj_1", environmentId: "env_1", service: "web" };
const lines: string[] = [];
let entered = 0;
let open = 0;
/** How many messages of a flood were asked for. */
let flooded = 0;
const FLOOD = "x".repeat(100_000);
const PIECE = "x".repeat(10_000);
let server: RunningServer;

const options = (): ServerOptions => ({
  host: "127.0.0.1",
  port: 0,
  grpcPort: 0,
  keys: testKeys,
  log: createLog("kit-test", "debug", (line) => void lines.push(line)),
  ready: async () => true,
  routes: (router) =>
    router.service(DeploymentService, {
      async *followLogs({ service }, ctx) {
        entered++;
        if (service === "missing") throw notFound("service");
        if (service === "flood")
          for (flooded = 1; !ctx.signal.aborted; flooded++)
            yield { id: String(flooded), event: { case: "line", value: { message: FLOOD } } };
        if (service === "burst")
          for (let n = 1; n <= 100; n++)
            yield { id: String(n), event: { case: "line", value: { message: PIECE } } };
        yield { id: who(ctx).caller.id };
        if (service === "broken") throw new Error("password=hunter2");
        if (service !== "endless") return;
        open++;
        await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
        open--;
        throw unavailable();
      },
    }),
});

beforeAll(async () => {
  server = await serve(options());
});

afterAll(() => server.stop());

/** The ids that came, and how the stream was refused. */
async function read(binary: boolean, caller: Partial<Caller>, more: object = {}) {
  const ids: string[] = [];
  try {
    const stream = clientAs(DeploymentService, server.port, caller, binary).followLogs({ ...path, ...more });
    for await (const { id } of stream) ids.push(id);
    return { ids };
  } catch (error) {
    return { ids, problem: (error as ConnectError).findDetails(ProblemSchema)[0] };
  }
}

/** Binary messages are the library's to answer, JSON is answered by our own code (docs/by-hand.md#rpcs-in-json). */
const BOTH = [
  ["in binary", true],
  ["in JSON", false],
] as const;

test.each(BOTH)(
  "a stream %s is authorised and validated before its handler hears of it",
  async (_, binary) => {
    expect(await read(binary, reader)).toEqual({ ids: ["usr_test"] });
    const before = entered;
    const refused = { ids: [], problem: { status: 403, code: "forbidden" } };
    expect(await read(binary, { accountId: "acc_2", role: "owner" })).toMatchObject(refused);
    expect(await read(binary, { accountId: "acc_1" })).toMatchObject(refused);
    expect(await read(binary, { kind: "service" })).toMatchObject(refused);
    expect((await read(binary, { kind: "anonymous" })).problem).toMatchObject({ status: 401 });
    expect((await read(binary, reader, { limit: 1001 })).problem).toMatchObject({
      status: 422,
      details: [{ path: "limit", reason: "out_of_range" }],
    });
    expect(entered).toBe(before);
  },
);

test("a stream takes exactly one request message", async () => {
  const json = Buffer.from(JSON.stringify(path));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(json.length, 1);
  const one = Buffer.concat([head, json]);
  const ask = async (body: Buffer) => {
    const answer = await fetch(
      `http://127.0.0.1:${server.port}/berth.deployer.v1.DeploymentService/FollowLogs`,
      {
        method: "POST",
        headers: {
          "content-type": "application/connect+json",
          [CALLER_HEADER]: signCaller(testKeys, { kind: "user", id: "usr_1", ip: "", ...reader }),
        },
        body: new Uint8Array(body),
      },
    );
    return answer.text();
  };
  expect(await ask(one)).toContain("usr_1");
  const before = entered;
  for (const body of [Buffer.concat([one, one]), Buffer.alloc(0)])
    expect(await ask(body)).toContain("must be exactly one message");
  expect(entered).toBe(before);
});

test.each(BOTH)(
  "a refusal in a stream %s arrives whole, an unforeseen error says only its request id",
  async (_, binary) => {
    expect((await read(binary, reader, { service: "missing" })).problem).toMatchObject({
      status: 404,
      code: "not_found",
    });
    const { ids, problem } = await read(binary, reader, { service: "broken" });
    expect([ids, problem?.code]).toEqual([["usr_test"], "internal"]);
    expect(problem?.message).toMatch(/request id.*req_/);
    expect(problem?.message).not.toContain("hunter2");
    expect(lines.filter((line) => line.includes('"code":"internal"')).length).toBeGreaterThan(0);
  },
);

test.each(BOTH)("a stream %s of more than a buffer holds arrives to its end", async (_, binary) => {
  const ids = Array.from({ length: 100 }, (_, n) => String(n + 1));
  expect(await read(binary, reader, { service: "burst" })).toEqual({ ids: [...ids, "usr_test"] });
});

test.each(BOTH)("a client that reads a stream %s slowly holds its handler back", async (_, binary) => {
  const leaving = new AbortController();
  const client = clientAs(DeploymentService, server.port, reader, binary);
  const events = client.followLogs({ ...path, service: "flood" }, { signal: leaving.signal });
  const ids: number[] = [];
  flooded = 0;
  for await (const { id } of events) {
    ids.push(Number(id));
    if (ids.length > 1) break;
    let before = -1;
    await eventually("it is held back", async () => {
      const same = flooded > 0 && flooded === before;
      before = flooded;
      await new Promise((next) => setTimeout(next, 100));
      return same;
    });
  }
  leaving.abort();
  expect(ids).toEqual([1, 2]);
  expect(flooded * FLOOD.length).toBeLessThan(64 * 1024 * 1024);
});

test("a client that leaves, and a server that stops, end a stream that has no end of its own", async () => {
  const leaving = new AbortController();
  const client = clientAs(DeploymentService, server.port, reader, false);
  const left = (async () => {
    for await (const _ of client.followLogs({ ...path, service: "endless" }, { signal: leaving.signal }));
  })().catch(() => {});
  await eventually("it is open", async () => open === 1);
  leaving.abort();
  await left;
  await eventually("its handler has ended", async () => open === 0);

  const stopping = await serve(options());
  const other = clientAs(DeploymentService, stopping.port, reader, false);
  const ended = (async () => {
    for await (const _ of other.followLogs({ ...path, service: "endless" }));
  })().catch((error: ConnectError) => error.findDetails(ProblemSchema)[0]);
  await eventually("it is open", async () => open === 1);
  await stopping.stop();
  expect(await ended).toMatchObject({ status: 503 });
  expect(open).toBe(0);
});

test("a service with a method that takes a stream does not start", async () => {
  const starting = serve({ ...options(), routes: (router) => router.service(ServerReflection, {}) });
  await expect(starting).rejects.toThrow("takes a stream");
});
