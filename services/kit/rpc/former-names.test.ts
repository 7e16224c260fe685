import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient, type ServiceImpl } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { afterAll, expect, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { createLog } from "../log.ts";
import { type RunningServer, serve } from "../process/server.ts";
import { testKeys } from "../testing/testing.ts";
import { CALLER_HEADER, signCaller } from "./caller-token.ts";
import { serviceClient } from "./client.ts";
import { notFound } from "./refusals.ts";

type Internal = typeof InternalService;

/** The service as the release before has it, under the name of that release. */
const former = {
  ...InternalService,
  typeName: "berth.variables.v1.VariablesService",
  proto: { ...InternalService.proto, options: undefined },
} as unknown as Internal;
const methods = InternalService.methods.map((method) => ({ ...method, parent: former as DescService }));
Object.assign(former, {
  methods,
  method: Object.fromEntries(methods.map((method) => [method.localName, method])),
});

const handlers: ServiceImpl<Internal> = {
  resolveRelease: ({ serviceId }) => {
    if (serviceId === "none") throw notFound("service");
    return { fingerprint: `of ${serviceId}` };
  },
  announceDeletion: () => ({}),
  announceRename: () => ({}),
};

const running: RunningServer[] = [];
afterAll(() => Promise.all(running.map((server) => server.stop())));

async function replica(service: Internal): Promise<string> {
  const server = await serve({
    host: "127.0.0.1",
    port: 0,
    grpcPort: 0,
    keys: testKeys,
    log: createLog("kit-test", "silent"),
    routes: (router) => router.service(service, handlers),
    ready: async () => true,
  });
  running.push(server);
  return `http://127.0.0.1:${server.port}`;
}

const present = (url: string) => serviceClient(InternalService, { url, keys: testKeys, name: "deployer" });

/** A client as the release before has it: it knows no other name. */
function before(url: string): Client<Internal> {
  const caller = signCaller(testKeys, { kind: "service", id: "deployer", ip: "" });
  const transport = createConnectTransport({
    httpVersion: "1.1",
    baseUrl: url,
    interceptors: [
      (next) => (req) => {
        req.header.set(CALLER_HEADER, caller);
        return next(req);
      },
    ],
  });
  return createClient(former, transport);
}

test("while an upgrade rolls, replicas of both releases call each other under a service's two names", async () => {
  const [old, current] = await Promise.all([replica(former), replica(InternalService)]);
  for (const client of [present(old), present(current), before(old), before(current)]) {
    expect(await client.resolveRelease({ serviceId: "svc_1" })).toMatchObject({ fingerprint: "of svc_1" });
    await expect(client.resolveRelease({ serviceId: "none" })).rejects.toThrow("[not_found]");
  }
});

test("nobody but a service passes under the former name", async () => {
  const url = await replica(InternalService);
  const answer = await fetch(`${url}/berth.variables.v1.VariablesService/ResolveRelease`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ serviceId: "svc_1" }),
  });
  expect(answer.status).toBe(401);
});
