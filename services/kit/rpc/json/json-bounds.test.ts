import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CreateServiceRequestSchema } from "../../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { BatchVariablesRequestSchema } from "../../../../proto/gen/berth/variables/v1/variables_pb.ts";
import { findExcess } from "./json-bounds.ts";

const batch = (json: string) => findExcess(BatchVariablesRequestSchema, Buffer.from(json));
const said = (json: string) => {
  const excess = batch(json);
  return excess?.kind === "many" ? `${excess.detail.path} ${excess.detail.reason}` : excess?.kind;
};
const list = (count: number, one = "{}") => `[${Array(count).fill(one).join()}]`;

describe("what a request message has no room for is found", () => {
  test.each([
    ["entries", `{"set":${list(501)}}`, "set batch_too_large"],
    [
      "entries that are no more than there may be",
      `{"set":${list(500)},"unset":${list(500, '"A"')}}`,
      undefined,
    ],
    [
      "entries of a second list of the same name",
      `{"set":${list(500)},"set":${list(500)},"set":${list(500)}}`,
      " too_long",
    ],
    ["entries of an escaped name", `{"s\\u0065t":${list(501)}}`, "set batch_too_large"],
    ["values where there is room for one", `{"confirmImpact":${list(2000, "1")}}`, "confirmImpact too_long"],
    ["values of unknown members", `{"nope":{"a":${list(1200, "null")}}}`, " too_long"],
    ["members", `{${Array.from({ length: 1100 }, (_, i) => `"k${i}":0`).join()}}`, " too_long"],
    ["members of an entry", `{"set":[{},{${Array(1100).fill('"name":""').join()}}]}`, "set[1] too_long"],
    ["digits", `{"set":[{"sensitive":${"9".repeat(1001)}}]}`, "set[0].sensitive out_of_range"],
    ["characters", `{"unset":["${"a".repeat(33_000)}"]}`, "unset[0] too_long"],
    ["characters of a value", `{"set":[{"value":"${"a".repeat(400_000)}"}]}`, "set[0].value value_too_large"],
    ["characters that are all escaped", `{"set":[{"value":"${"\\u0061".repeat(65_536)}"}]}`, undefined],
    ["levels", `{"nope":${"[".repeat(40)}`, "deep"],
    ["levels that are no more than there may be", `${"[".repeat(32)}${"]".repeat(32)}`, undefined],
  ])("%s", (_, json, expected) => {
    expect(said(json)).toBe(expected);
  });

  test("entries of a map", () => {
    const env = (count: number) =>
      `{"config":{"env":{${Array.from({ length: count }, (_, i) => `"A${i}":"x"`).join()}}}}`;
    const found = (json: string) => findExcess(CreateServiceRequestSchema, Buffer.from(json));
    expect(found(env(100))).toBeUndefined();
    expect(found(env(101))).toMatchObject({ detail: { path: "config.env", reason: "too_long" } });
  });

  test("what is no JSON", () => {
    for (const json of [
      "",
      "{",
      '{"a"',
      '{"a":',
      '{"a":1',
      '{"a":1,',
      '{"a":"',
      '{"a":"\\"',
      "[1 2]",
      "{1:2}",
      "{}x",
    ])
      expect([json, said(json)]).toEqual([json, "malformed"]);
  });
});

test("JSON that is neither deep nor large passes, however it is written", () => {
  const json = fc.jsonValue({ maxDepth: 12, depthSize: "medium", stringUnit: "binary" });
  const members = fc.constantFrom("set", "unset", "name", "value", "connection", "confirmImpact");
  const object = fc.dictionary(fc.oneof(members, fc.string()), json, { maxKeys: 12 });
  fc.assert(
    fc.property(
      fc.oneof(json, object),
      fc.constantFrom(0, 1, "\t", "\r\n"),
      fc.boolean(),
      (value, space, escaped) => {
        const plain = JSON.stringify(value, null, space);
        const text = escaped ? plain.replaceAll("m", "\\u006d") : plain;
        expect([text, JSON.parse(text) !== undefined && said(text)]).toEqual([text, undefined]);
      },
    ),
    { numRuns: 500 },
  );
});
