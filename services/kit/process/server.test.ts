import { once } from "node:events";
import http from "node:http";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import type { ConnectError } from "@connectrpc/connect";
import * as grpc from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  AccountSchema,
  AccountService,
  GetAccountRequestSchema,
} from "../../../proto/gen/berth/identity/v1/identity_pb.ts";
import { ProblemSchema } from "../../../proto/gen/berth/options/v1/options_pb.ts";
import {
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
} from "../../../proto/gen/grpc/health/v1/health_pb.ts";
import {
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "../../../proto/gen/grpc/reflection/v1/reflection_pb.ts";
import { createLog } from "../log.ts";
import { CALLER_HEADER, type Caller, signCaller } from "../rpc/caller-token.ts";
import { invalid } from "../rpc/refusals.ts";
import { clientAs, testKeys } from "../testing/testing.ts";
import { type RunningServer, serve } from "./server.ts";

let server: RunningServer;
const lines: string[] = [];
const entered = Promise.withResolvers<void>();
const slow = Promise.withResolvers<void>();
const owner: Partial<Caller> = { accountId: "acc_1", role: "owner" };

beforeAll(async () => {
  server = await serve({
    host: "127.0.0.1",
    port: 0,
    grpcPort: 0,
    keys: testKeys,
    log: createLog("kit-test", "debug", (line) => void lines.push(line)),
    ready: async () => true,
    routes: (router) =>
      router.service(AccountService, {
        getAccount: (req) => ({ id: req.accountId, handle: "acme" }),
        listMembers: () => {
          throw new Error("password=hunter2");
        },
        removeMember: () => {
          const address = { code: "ECONNREFUSED", port: 5432 };
          throw Object.assign(new Error("connect ECONNREFUSED 192.0.2.1:5432"), address);
        },
        updateAccount: () => {
          throw invalid("handle", "invalid_handle", "The handle is not usable.");
        },
        listAuditEvents: async () => {
          entered.resolve();
          await slow.promise;
          return { data: [] };
        },
      }),
  });
});

afterAll(() => server.stop());

const problem = async (call: Promise<unknown>) => {
  const error = (await call.then(
    () => undefined,
    (e: unknown) => e,
  )) as ConnectError;
  return error.findDetails(ProblemSchema)[0];
};

describe.each([
  { kind: "binary messages, by the library", binary: true },
  { kind: "JSON, as the gateway sends it", binary: false },
])("$kind", ({ binary }) => {
  const as = (caller: Partial<Caller>) => clientAs(AccountService, server.port, caller, binary);

  test("only a caller with the role in that very account passes", async () => {
    const get = (caller: Partial<Caller>) => as(caller).getAccount({ accountId: "acc_1" });
    expect((await get({ ...owner, role: "reader" })).handle).toBe("acme");
    expect(await problem(get({ accountId: "acc_2", role: "owner" }))).toMatchObject({
      status: 403,
      code: "forbidden",
    });
    expect(await problem(get({}))).toMatchObject({ status: 403, context: { requiredRole: "reader" } });
    expect(await problem(get({ kind: "service" }))).toMatchObject({ status: 403 });
    const bare = await fetch(`http://127.0.0.1:${server.port}/berth.identity.v1.AccountService/GetAccount`, {
      method: "POST",
      headers: { "content-type": "application/json", [CALLER_HEADER]: "forged.header" },
      body: JSON.stringify({ accountId: "acc_1" }),
    });
    expect(bare.status).toBe(401);
  });

  test("validation rules of the proto answer 422 with a reason for each member", async () => {
    const client = as(owner);
    expect(await problem(client.listMembers({ accountId: "acc_1", limit: 101 }))).toMatchObject({
      status: 422,
      code: "validation_failed",
      details: [{ path: "limit", reason: "out_of_range" }],
    });
    const update = { accountId: "acc_1", userId: "usr_1", role: "king" };
    expect((await problem(client.updateMember(update)))?.details).toMatchObject([
      { path: "role", reason: "invalid_choice" },
    ]);
  });

  test("a foreseen refusal reaches the caller whole, an unforeseen one says only its request id", async () => {
    const client = as(owner);
    expect(await problem(client.updateAccount({ accountId: "acc_1" }))).toMatchObject({
      status: 422,
      details: [{ path: "handle", reason: "invalid_handle" }],
    });
    const internal = await problem(client.listMembers({ accountId: "acc_1" }));
    expect(internal).toMatchObject({ status: 500, code: "internal" });
    expect(internal?.message).toMatch(/request id.*req_/);
    expect(internal?.message).not.toContain("hunter2");
  });

  test("while the database is away each request that fails is one line with the cause, without a stack", async () => {
    const call = () => as(owner).removeMember({ accountId: "acc_1", userId: "usr_1" });
    lines.length = 0;
    for (let i = 0; i < 3; i++)
      expect(await problem(call())).toMatchObject({ status: 503, code: "unavailable" });
    const warned = lines.filter((line) => (JSON.parse(line) as { level: string }).level !== "debug");
    expect(warned).toHaveLength(3);
    for (const line of warned)
      expect(JSON.parse(line)).toMatchObject({
        level: "warn",
        cause: "connect ECONNREFUSED 192.0.2.1:5432",
        requestId: expect.stringMatching(/^req_/),
      });
    expect(warned.join("")).not.toContain("stack");
  });
});

test("an unknown member is refused, not dropped", async () => {
  const answer = await fetch(`http://127.0.0.1:${server.port}/berth.identity.v1.AccountService/GetAccount`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      [CALLER_HEADER]: signCaller(testKeys, { kind: "user", id: "u", ip: "", ...owner }),
    },
    body: JSON.stringify({ accountId: "acc_1", surprise: true }),
  });
  expect(answer.status).toBe(400);
  expect(await answer.text()).toContain("surprise");
});

test("a real gRPC client calls the service, asks its health and lists it by reflection", async () => {
  const client = new grpc.Client(`127.0.0.1:${server.grpcPort}`, grpc.credentials.createInsecure());
  const unary = (path: string, body: Uint8Array, metadata = new grpc.Metadata()) =>
    new Promise<Uint8Array>((resolve, reject) => {
      const same = (bytes: Uint8Array) => Buffer.from(bytes);
      client.makeUnaryRequest(
        path,
        same,
        (b: Buffer) => b,
        body,
        metadata,
        (error, value) => (error ? reject(error) : resolve(value!)),
      );
    });
  const metadata = new grpc.Metadata();
  metadata.set(CALLER_HEADER, signCaller(testKeys, { kind: "user", id: "u", ip: "", ...owner }));
  const request = toBinary(GetAccountRequestSchema, create(GetAccountRequestSchema, { accountId: "acc_1" }));
  const path = "/berth.identity.v1.AccountService/GetAccount";
  expect(fromBinary(AccountSchema, await unary(path, request, metadata)).handle).toBe("acme");
  await expect(unary(path, request)).rejects.toMatchObject({ code: grpc.status.UNAUTHENTICATED });

  const check = toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema));
  expect(
    fromBinary(HealthCheckResponseSchema, await unary("/grpc.health.v1.Health/Check", check)).status,
  ).toBe(1);

  const ask = async (messageRequest: { case: "listServices" | "fileContainingSymbol"; value: string }) => {
    const stream = client.makeBidiStreamRequest(
      "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
      (bytes: Uint8Array) => Buffer.from(bytes),
      (bytes: Buffer) => fromBinary(ServerReflectionResponseSchema, bytes),
      new grpc.Metadata(),
    );
    const body = create(ServerReflectionRequestSchema, { messageRequest });
    stream.write(toBinary(ServerReflectionRequestSchema, body));
    stream.end();
    for await (const answer of stream) return answer.messageResponse;
  };
  const listed = await ask({ case: "listServices", value: "" });
  expect(listed.value.service.map((s: { name: string }) => s.name)).toContain(
    "berth.identity.v1.AccountService",
  );
  const file = await ask({ case: "fileContainingSymbol", value: "berth.identity.v1.AccountService" });
  const descriptor = fromBinary(FileDescriptorProtoSchema, file.value.fileDescriptorProto[0]);
  expect(descriptor.name).toBe("berth/identity/v1/identity.proto");
  client.close();
});

test("health, readiness and metrics are answered over plain HTTP", async () => {
  const get = (path: string) => fetch(`http://127.0.0.1:${server.port}${path}`);
  expect((await get("/healthz")).status).toBe(200);
  expect((await get("/readyz")).status).toBe(200);
  expect(await (await get("/metrics")).text()).toContain("berth_rpc_duration_seconds_bucket");
  expect((await get("/nothing")).status).toBe(404);
});

test("a page whose name was made to point to this machine reads no metrics", async () => {
  const status = async (host: string) => {
    const asked = http.get(`http://127.0.0.1:${server.port}/metrics`, { headers: { host }, agent: false });
    const [answer] = (await once(asked, "response")) as [http.IncomingMessage];
    answer.resume();
    return answer.statusCode;
  };
  expect(await status(`127.0.0.1:${server.port}`)).toBe(200);
  expect(await status(`evil.example:${server.port}`)).toBe(404);
});

test("stopping finishes the request that is under way", async () => {
  const pending = clientAs(AccountService, server.port, owner).listAuditEvents({ accountId: "acc_1" });
  await entered.promise;
  const stopped = server.stop();
  slow.resolve();
  expect((await pending).data).toEqual([]);
  await stopped;
  const refused = clientAs(AccountService, server.port, owner).getAccount({ accountId: "acc_1" });
  await expect(refused).rejects.toThrow();
});
