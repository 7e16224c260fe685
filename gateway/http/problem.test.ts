import { type DescMessage, fromJson } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { CreateVariableRequestSchema } from "../../proto/gen/berth/variables/v1/variables_pb.ts";
import { errorEnvelope, fromConnectError } from "./problem.ts";

/** What a service answers when a message can not be decoded. */
function decodeError(desc: DescMessage, json: object): Buffer {
  try {
    fromJson(desc, json as never, { ignoreUnknownFields: false });
  } catch (error) {
    const message = `cannot decode message ${desc.typeName} from JSON: ${(error as Error).message}`;
    return Buffer.from(JSON.stringify({ code: "invalid_argument", message }));
  }
  throw new Error("decoded");
}

test("a member that a service can not decode is named, its value is not", () => {
  const unknown = fromConnectError(decodeError(CreateVariableRequestSchema, { s3cret: 1 }), "r");
  expect(unknown).toMatchObject({ status: 422, details: [{ path: "s3cret", reason: "unknown_field" }] });
  const wrong = fromConnectError(decodeError(CreateVariableRequestSchema, { aliasTarget: 98765 }), "r");
  expect(wrong).toMatchObject({ status: 422, details: [{ path: "aliasTarget", reason: "invalid_type" }] });
  expect(JSON.stringify(wrong)).not.toContain("98765");
});

test("what a service says without a problem of its own is internal, or unavailable", () => {
  const status = (body: string) => fromConnectError(Buffer.from(body), "r").status;
  expect(status('{"code":"deadline_exceeded","message":"secret"}')).toBe(503);
  expect(status('{"code":"unavailable"}')).toBe(503);
  // What an older replica of the service says to a new RPC.
  expect(status('{"code":"unimplemented","message":"secret"}')).toBe(503);
  expect(status("")).toBe(503);
  expect(status("<html>")).toBe(500);
  const found = fromConnectError(Buffer.from('{"code":"unknown","message":"secret"}'), "r");
  expect(errorEnvelope(found, "r").toString()).not.toContain("secret");
});
