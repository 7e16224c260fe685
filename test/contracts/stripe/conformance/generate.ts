/** npm run generate:stripe: writes `schemas.json`, after stripe was updated or `request-types.ts` changed. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Stripe } from "stripe";
import { createGenerator, type Schema } from "ts-json-schema-generator";
import { type RequestSchemas, schemasFile } from "./check-request.ts";

type Definition = Schema | boolean;
type Definitions = Record<string, Definition>;

/** An object of the SDK, whose requests have its digits. */
const replaced: Definitions = { Decimal: { type: "string", pattern: "^-?\\d+(\\.\\d+)?$" } };

/** The member of enumerations that may grow: Berth sends none of the values that may come. */
const OPEN_ENUM = "OtherString";

/** `Emptyable<T>`: T or nothing. Such names contain places in files; inlined, the schemas are the same everywhere. */
const isInlined = (name: string) => name.startsWith("Emptyable<");

/** Returns the schemas of `RequestTypes`, made from the types of the installed package `stripe`. */
export function generateSchemas(): RequestSchemas {
  const schema = createGenerator({
    path: join(import.meta.dirname, "request-types.ts"),
    tsconfig: join(import.meta.dirname, "../../../../tsconfig.json"),
    skipTypeCheck: true, // `npm run check` does that.
    jsDoc: "none",
    topRef: false,
    encodeRefs: false,
  }).createSchema("RequestTypes");
  const all: Definitions = { ...schema.definitions, ...replaced };
  const kept = Object.entries(all).filter(([name]) => !isInlined(name) && name !== OPEN_ENUM);
  const requests = Object.entries(schema.properties ?? {});
  return {
    stripe: Stripe.PACKAGE_VERSION,
    requests: sorted(requests.map(([request, params]) => [request, definitionName(params as Schema)])),
    definitions: sorted(kept.map(([name, one]) => [name, simplified(one, all) as Definition])),
  };
}

const definitionName = ({ $ref }: Schema) =>
  typeof $ref === "string" ? $ref.replace("#/definitions/", "") : "";

const sorted = <T>(entries: [string, T][]): Record<string, T> =>
  Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));

/** Returns a schema with closed enumerations, short, its keys sorted. */
function simplified(schema: unknown, all: Definitions): unknown {
  if (Array.isArray(schema)) return schema.map((one) => simplified(one, all));
  if (typeof schema !== "object" || schema === null) return schema;
  const name = definitionName(schema);
  if (isInlined(name)) return simplified(all[name], all);
  const { anyOf } = schema as Schema;
  if (Array.isArray(anyOf)) return union(anyOf as Schema[], all);
  return sorted(Object.entries(schema).map(([key, value]) => [key, simplified(value, all)]));
}

/** Returns the schema of a union, whose literals become one enumeration. */
function union(members: Schema[], all: Definitions): unknown {
  const literals = members.flatMap((member) => member.const ?? []);
  // What is sent has no null: the SDK makes it "".
  const others = members.filter(
    (member) => member.const === undefined && member.type !== "null" && definitionName(member) !== OPEN_ENUM,
  );
  const anyOf = [
    ...(literals.length > 0 ? [{ enum: literals }] : []),
    ...others.map((one) => simplified(one, all)),
  ];
  return anyOf.length === 1 ? anyOf[0] : { anyOf };
}

/** Returns the text of `schemas.json`: a line for each definition, so that a new version of Stripe's can be read. */
export function toText({ stripe, requests, definitions }: RequestSchemas): string {
  const lines = (object: object) =>
    Object.entries(object)
      .map(([key, value]) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)}`)
      .join(",\n");
  return `{"stripe": "${stripe}", "requests": {\n${lines(requests)}\n}, "definitions": {\n${lines(definitions)}\n}}\n`;
}

if (import.meta.main) writeFileSync(schemasFile, toText(generateSchemas()));
