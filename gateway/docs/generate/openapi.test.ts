import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, test } from "vitest";
import { allRoutes } from "../../routing/routes.ts";
import { openapi } from "./openapi.ts";
import type { Schema } from "./schemas.ts";

type Operation = {
  operationId: string;
  description: string;
  parameters: Schema[];
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content }>;
};
type Content = { "application/json": { schema: Schema; example?: unknown } };

const made = openapi();
const committed = JSON.parse(readFileSync(join(import.meta.dirname, "../../openapi.json"), "utf8"));
const paths = committed.paths as Record<string, Record<string, Operation>>;
const operations = Object.values(paths).flatMap((item) => Object.values(item));

test("the committed document is what the protos say", () => {
  expect(committed).toEqual(JSON.parse(JSON.stringify(made)));
});

test("every route is in it, once", () => {
  const named = allRoutes().map((route) => `${route.method} ${route.pattern.replaceAll(/:(\w+)/g, "{$1}")}`);
  const found = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const others = [
    "POST /oauth/register",
    ...["GET", "PUT", "DELETE"].map((m) => `${m} /oauth/register/{clientId}`),
  ];
  // A stream may share its path with what answers JSON there.
  expect(found.sort()).toEqual([...new Set([...named, ...others])].sort());
  const ids = operations.map((operation) => operation.operationId);
  expect(new Set(ids).size).toBe(ids.length);
});

test("every reference leads somewhere", () => {
  const references = JSON.stringify(committed).match(/"\$ref":"[^"]+"/g)!;
  for (const reference of new Set(references)) {
    const path = reference.slice('"$ref":"#/'.length, -1).split("/");
    expect(
      path.reduce((node, key) => node?.[key], committed),
      reference,
    ).toBeDefined();
  }
});

test("what can happen to any request stands at every operation of a route", () => {
  for (const { operationId, responses } of operations.filter(
    ({ operationId }) => !/RegisteredClient$|^registerClient$/.test(operationId),
  ))
    for (const status of [400, 408, 417, 422, 429, 431, 500, 503])
      expect([operationId, responses]).toHaveProperty(`1.${status}`);
});

test("an error of an operation has one of the codes and reasons that the document lists there", () => {
  const ajv = new Ajv2020({ strict: false }).addSchema(committed, "openapi");
  const schema =
    "/paths/~1accounts~1%7BaccountId%7D~1coupon/post/responses/422/content/application~1json/schema";
  const validate = ajv.compile({ $ref: `openapi#${schema}` });
  const refusal = (code: string, reason: string) => ({
    error: { code, message: "", requestId: "req_1", details: [{ path: "code", reason, message: "" }] },
  });
  expect(validate(refusal("validation_failed", "expired"))).toBe(true);
  expect(validate(refusal("validation_failed", "reserved_name"))).toBe(false);
  expect(validate(refusal("not_found", "expired"))).toBe(false);
});

// Names of members whose words are a closed set wherever they stand.
const CLOSED =
  /^(status|stage|role|myRole|roleCap|type|scope|source|reason|outcome|stream|size|channel|frequency|category|cadence|method)$/;

test("a closed set lists its words", () => {
  const schemas = Object.entries(
    committed.components.schemas as Record<string, { properties?: Record<string, Schema> }>,
  );
  const open = schemas
    .flatMap(([name, { properties = {} }]) =>
      Object.entries(properties).map(([member, schema]) => ({ name: `${name}.${member}`, member, schema })),
    )
    .filter(({ member, schema }) => CLOSED.test(member) && schema.type === "string" && !schema.enum)
    // The scope of RFC 7591 is several words in one text; the reason of a mail may be a status of SMTP.
    .filter(
      ({ name }) =>
        !["ClientMetadata.scope", "RegisteredClientDto.scope", "MailDecisionDto.reason"].includes(name),
    );
  expect(open.map(({ name }) => name)).toEqual([]);
});

test("every example fits its schema", () => {
  for (const { operationId, requestBody, responses } of operations)
    for (const content of [requestBody?.content, ...Object.values(responses).map((r) => r.content)]) {
      const media = content?.["application/json"];
      if (media?.example !== undefined) expect(misfits(media.example, media.schema, operationId)).toEqual([]);
    }
});

test("comments, rules, codes and reasons of the protos are in it, names of documents are not", () => {
  const create = paths["/accounts/{accountId}/projects/{projectId}/variables"]!.post!;
  expect(create.description).toMatch(/^Creates a variable .*\n\nRole: editor\./s);
  expect(create.responses["422"]).toMatchObject({ description: expect.stringContaining("`reserved_name`") });
  expect(create.parameters).toContainEqual({ $ref: "#/components/parameters/IdempotencyKey" });
  const { CreateVariableRequest, PageDto, ServiceConfigDto } = committed.components.schemas;
  expect(CreateVariableRequest.required).toEqual(["name"]);
  expect(CreateVariableRequest.properties).not.toHaveProperty("projectId");
  expect(PageDto.required).toEqual(["nextCursor", "hasMore"]);
  expect(ServiceConfigDto.properties.port).toMatchObject({ minimum: 1, maximum: 65535 });
  expect(JSON.stringify(committed)).not.toContain(".md");
});

function resolved(schema: Schema): Schema {
  if (typeof schema.$ref !== "string") return schema;
  return schema.$ref
    .slice(2)
    .split("/")
    .reduce((node, key) => node[key], committed);
}

/** Where a value does not fit a schema, as far as the document uses JSON Schema. */
function misfits(value: unknown, given: Schema, at: string): string[] {
  const schema = resolved(given);
  const choices = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(choices)) {
    const options = choices.map((option) => misfits(value, option as Schema, at));
    return options.find((found) => found.length === 0) ?? options.flat();
  }
  const type = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  const wanted = schema.type === "integer" ? "number" : schema.type;
  if (type !== wanted) return [`${at}: ${type} is not ${String(wanted)}`];
  if (Array.isArray(schema.enum) && !schema.enum.includes(value)) return [`${at}: not in the enum`];
  if (typeof schema.pattern === "string" && !new RegExp(schema.pattern, "u").test(String(value)))
    return [`${at}: not of the pattern`];
  if (Array.isArray(value))
    return value.flatMap((entry, i) => misfits(entry, schema.items as Schema, `${at}[${i}]`));
  if (type !== "object") return [];
  const properties = (schema.properties ?? {}) as Record<string, Schema>;
  const missing = ((schema.required ?? []) as string[]).filter(
    (name) => !Object.hasOwn(value as object, name),
  );
  const inside = Object.entries(value as object).flatMap(([name, entry]) => {
    const member = properties[name] ?? schema.additionalProperties;
    return member ? misfits(entry, member as Schema, `${at}.${name}`) : [`${at}.${name}: not known`];
  });
  return [...missing.map((name) => `${at}.${name}: missing`), ...inside];
}
