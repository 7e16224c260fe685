import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { HandlerContext } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AccountService } from "../../../../proto/gen/berth/identity/v1/identity_pb.ts";
import { createLog } from "../../log.ts";
import { type RunningServer, serve } from "../../process/server.ts";
import { eventually, testKeys } from "../../testing/testing.ts";
import { CALLER_HEADER, type Caller, signCaller } from "../caller-token.ts";
import { isNotModified } from "../etag.ts";
import { conflict, invalid } from "../refusals.ts";

let server: RunningServer;
let context: HandlerContext | undefined;
const owner: Caller = { kind: "user", id: "usr_1", ip: "192.0.2.1", accountId: "acc_1", role: "owner" };

async function start(): Promise<RunningServer> {
  return serve({
    host: "127.0.0.1",
    port: 0,
    grpcPort: 0,
    keys: testKeys,
    log: createLog("kit-test", "error", () => {}),
    ready: async () => true,
    routes: (router) =>
      router.service(AccountService, {
        getAccount: ({ accountId }, ctx) =>
          isNotModified(ctx, "7") ? {} : { id: accountId, handle: "ä€😀" },
        updateAccount: () => {
          throw invalid("handle", "invalid_handle", "The handle is not usable.");
        },
        removeMember: () => {
          throw conflict("conflict", "Try again.", { retryAfter: 3 });
        },
        listMembers: () => {
          throw new Error("password=hunter2");
        },
        // It ends only with its request.
        listAuditEvents: (_, ctx) => {
          context = ctx;
          return new Promise((_, reject) => {
            ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason));
          });
        },
      }),
  });
}

beforeAll(async () => {
  server = await start();
});

afterAll(() => server.stop());

type Sent = {
  method?: string;
  body?: string | Uint8Array;
  headers?: Record<string, string>;
  caller?: Caller;
};

function post(method: string, { body, headers, caller = owner }: Sent, type: string, signal?: AbortSignal) {
  return fetch(`http://127.0.0.1:${server.port}/berth.identity.v1.AccountService/${method}`, {
    method: "POST",
    headers: {
      "content-type": type,
      "connect-protocol-version": "1",
      "x-request-id": "req_1",
      [CALLER_HEADER]: signCaller(testKeys, caller),
      ...headers,
    },
    body: (body ?? JSON.stringify({ accountId: "acc_1" })) as string,
    signal: signal ?? null,
  });
}

async function answerOf(method: string, sent: Sent, type: string) {
  const answer = await post(method, sent, type);
  const headers = Object.fromEntries(answer.headers);
  return { status: answer.status, headers: { ...headers, date: "" }, body: await answer.text() };
}

const CASES: [what: string, method: string, sent: Sent, status: number][] = [
  ["an answer", "GetAccount", {}, 200],
  ["a tag that the caller holds", "GetAccount", { headers: { "if-none-match": '"7"' } }, 200],
  ["a caller without a role", "GetAccount", { caller: { kind: "user", id: "usr_2", ip: "" } }, 403],
  ["nobody", "GetAccount", { headers: { [CALLER_HEADER]: "forged.header" } }, 401],
  ["a refusal", "UpdateAccount", {}, 400],
  ["a refusal that says when to come again", "RemoveMember", {}, 409],
  ["a violated rule", "ListMembers", { body: '{"accountId":"acc_1","limit":101}' }, 400],
  ["an unforeseen error", "ListMembers", {}, 500],
  ["an unknown member", "GetAccount", { body: '{"accountId":"acc_1","x":1}' }, 400],
  ["a member of another type", "GetAccount", { body: '{"accountId":7}' }, 400],
  ["no JSON", "GetAccount", { body: "{" }, 400],
  ["no object", "GetAccount", { body: "null" }, 400],
  ["nothing", "GetAccount", { body: "" }, 400],
  ["what is not UTF-8", "GetAccount", { body: new Uint8Array([0x7b, 0xff, 0x7d]) }, 400],
  ["no deadline", "GetAccount", { headers: { "connect-timeout-ms": "soon" } }, 400],
  ["a method that nobody wrote", "PaintAccount", {}, 404],
];

test.each(CASES)(
  "%s is answered as by the library, also when it is asked again",
  async (_, method, sent, status) => {
    const ours = await answerOf(method, sent, "application/json");
    const theirs = await answerOf(method, sent, "application/json; charset=utf-8");
    expect(ours.status).toBe(status);
    expect(ours).toEqual(theirs);
    expect(await answerOf(method, sent, "application/json")).toEqual(theirs);
  },
);

test("a message above the limit is refused, and the connection goes on", async () => {
  const body = JSON.stringify({ accountId: "x".repeat(9 * 1024 * 1024) });
  const refused = await answerOf("GetAccount", { body }, "application/json");
  expect([refused.status, JSON.parse(refused.body)]).toMatchObject([429, { code: "resource_exhausted" }]);
  expect((await answerOf("GetAccount", {}, "application/json")).status).toBe(200);
});

/** Begins a request that ends only when its signal aborts. */
async function begin(headers: Record<string, string> = {}) {
  context = undefined;
  const leaving = new AbortController();
  const answered = post("ListAuditEvents", { headers }, "application/json", leaving.signal);
  answered.catch(() => {});
  await eventually("the handler has begun", async () => context !== undefined);
  return { leaving, answered, signal: context!.signal };
}

test("a handler's signal aborts when the client leaves, and at its deadline", async () => {
  const left = await begin();
  left.leaving.abort();
  await eventually("the handler is told", async () => left.signal.aborted);
  const late = await begin({ "connect-timeout-ms": "50" });
  expect((await late.answered).status).toBe(503);
  await eventually("the handler is told", async () => late.signal.aborted);
});

test("a handler reads the headers of its request by any name, and all of them", async () => {
  const { leaving } = await begin({ "x-more": "1" });
  const headers = context!.requestHeader;
  expect([headers.get("X-Request-Id"), headers.get("x-absent"), headers.get("constructor")]).toEqual([
    "req_1",
    null,
    null,
  ]);
  expect([headers.has("X-More"), headers.has("x-absent")]).toEqual([true, false]);
  expect(Object.fromEntries(headers)).toMatchObject({ "x-request-id": "req_1", "x-more": "1" });
  headers.set("x-more", "2");
  expect(new Headers(headers).get("x-more")).toBe("2");
  leaving.abort();
});

test("a handler's signal aborts when the process stops", async () => {
  const { answered, signal } = await begin();
  const stopped = server.stop();
  expect((await answered).status).toBeGreaterThanOrEqual(499);
  expect(signal.aborted).toBe(true);
  await stopped;
  server = await start();
});

test("an answered request is collected without a collection of the whole heap", async () => {
  const measuring = fork(join(import.meta.dirname, "../../testing/answered-heap.ts"), {
    execArgv: ["--expose-gc"],
  });
  const [bytesEach] = await Promise.race([
    once(measuring, "message"),
    once(measuring, "exit").then(() => Promise.reject(new Error("nothing was measured"))),
  ]);
  measuring.kill();
  // A request that is kept takes more than 6 000.
  expect(bytesEach).toBeLessThan(3_000);
});
