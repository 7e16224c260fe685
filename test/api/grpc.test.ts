import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  ListVariablesRequestSchema,
  VariablesPageSchema,
} from "../../proto/gen/berth/variables/v1/variables_pb.ts";
import {
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "../../proto/gen/grpc/reflection/v1/reflection_pb.ts";
import { CALLER_HEADER, signCaller } from "../../services/kit/rpc/caller-token.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world.stop());

const bytes = (message: Uint8Array) => Buffer.from(message);

function list(client: grpc.Client, projectId: string, metadata: grpc.Metadata): Promise<string[]> {
  const request = create(ListVariablesRequestSchema, { accountId: world.accountId, projectId });
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      "/berth.variables.v1.VariablesService/ListVariables",
      bytes,
      (answer: Buffer) => fromBinary(VariablesPageSchema, answer).data.map((variable) => variable.name),
      toBinary(ListVariablesRequestSchema, request),
      metadata,
      (error, names) => (error ? reject(error) : resolve(names!)),
    );
  });
}

test("a gRPC client calls a service as a signed caller, is refused without, and finds it by reflection", async () => {
  const { P, projectId } = await world.environment();
  await world.must("POST", `${P}/variables`, { name: "FROM_REST", value: "1" });
  const address = `127.0.0.1:${world.grpcPorts.variables}`;
  const client = new grpc.Client(address, grpc.credentials.createInsecure());
  const metadata = new grpc.Metadata();
  const caller = {
    kind: "user" as const,
    id: "usr_grpc",
    ip: "",
    accountId: world.accountId,
    role: "reader" as const,
  };
  metadata.set(CALLER_HEADER, signCaller(world.internalKeys, caller));
  expect(await list(client, projectId, metadata)).toEqual(["FROM_REST"]);
  await expect(list(client, projectId, new grpc.Metadata())).rejects.toMatchObject({
    code: grpc.status.UNAUTHENTICATED,
  });

  const reflection = client.makeBidiStreamRequest(
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    bytes,
    (answer: Buffer) => fromBinary(ServerReflectionResponseSchema, answer),
    new grpc.Metadata(),
  );
  const request = create(ServerReflectionRequestSchema, {
    messageRequest: { case: "listServices", value: "" },
  });
  reflection.write(toBinary(ServerReflectionRequestSchema, request));
  reflection.end();
  for await (const { messageResponse } of reflection)
    expect(messageResponse.value.service).toMatchObject([
      { name: "berth.variables.v1.VariablesService" },
      { name: "berth.variables.v1.InternalService" },
    ]);
  client.close();
});
