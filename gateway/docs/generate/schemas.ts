import { type DescField, type DescMessage, getOption, hasOption, ScalarType } from "@bufbuild/protobuf";
import { nullable } from "../../../proto/gen/berth/options/v1/options_pb.ts";
import { type FieldRules, field as fieldRules } from "../../../proto/gen/buf/validate/validate_pb.ts";
import type { Comments } from "./comments.ts";

export type Schema = Record<string, unknown>;

export type Schemas = ReturnType<typeof schemaCollector>;

/**
 * Collects the schemas of messages as they are referred to. Lists and maps are required in messages that only
 * responses contain; in requests they may be left out.
 */
export function schemaCollector(comments: Comments) {
  const schemas = new Map<string, Schema>();
  const requested = new Set<DescMessage>();

  function reference(desc: DescMessage, without: Set<string> = new Set()): Schema {
    const name = schemaName(desc);
    if (!schemas.has(name)) {
      schemas.set(name, {});
      schemas.set(name, messageSchema(desc, without));
    }
    return { $ref: `#/components/schemas/${name}` };
  }

  function messageSchema(desc: DescMessage, without: Set<string>): Schema {
    const fields = desc.fields.filter((field) => !without.has(field.jsonName));
    const required = fields.filter((field) => isRequired(desc, field)).map((field) => field.jsonName);
    return {
      type: "object",
      ...described(desc.typeName),
      properties: Object.fromEntries(fields.map((field) => [field.jsonName, fieldSchema(field)])),
      ...(required.length > 0 && { required }),
      ...(requested.has(desc) && { additionalProperties: false }),
    };
  }

  function isRequired(desc: DescMessage, field: DescField): boolean {
    if (field.proto.proto3Optional || field.oneof) return false;
    const many = field.fieldKind === "list" || field.fieldKind === "map";
    return !requested.has(desc) || !many;
  }

  function described(name: string): Schema {
    const description = comments.get(name);
    return description ? { description } : {};
  }

  function fieldSchema(field: DescField): Schema {
    const rules = hasOption(field, fieldRules) ? getOption(field, fieldRules) : undefined;
    return { ...valueSchema(field, rules), ...described(`${field.parent.typeName}.${field.name}`) };
  }

  function valueSchema(field: DescField, rules: FieldRules | undefined): Schema {
    if (field.fieldKind === "list") {
      const repeated = rules?.type.case === "repeated" ? rules.type.value : undefined;
      const items = { ...single(field), ...constraints(repeated?.items) };
      return {
        type: "array",
        items,
        ...bounds(repeated, ["minItems", "minItems"], ["maxItems", "maxItems"]),
      };
    }
    if (field.fieldKind === "map") {
      const map = rules?.type.case === "map" ? rules.type.value : undefined;
      const names = constraints(map?.keys);
      return {
        type: "object",
        additionalProperties: { ...single(field), ...constraints(map?.values) },
        ...(Object.keys(names).length > 0 && { propertyNames: names }),
        ...bounds(map, ["maxPairs", "maxProperties"]),
      };
    }
    return { ...single(field), ...constraints(rules) };
  }

  function single(field: DescField): Schema {
    if (field.message) {
      const { typeName } = field.message;
      if (typeName === "google.protobuf.Timestamp") return { type: "string", format: "date-time" };
      if (hasOption(field, nullable)) return { anyOf: [reference(nullableMessage(field)), { type: "null" }] };
      if (typeName.startsWith("google.protobuf.")) return { type: "object" };
      return reference(field.message);
    }
    if (field.enum) return { type: "string", enum: field.enum.values.map((value) => value.name) };
    return scalarSchema(field.scalar as ScalarType);
  }

  /** Marks a request message and all messages in it. */
  function markRequest(desc: DescMessage): void {
    if (requested.has(desc)) return;
    requested.add(desc);
    for (const field of desc.fields) if (field.message) markRequest(field.message);
  }

  return { markRequest, reference, fieldSchema, all: () => Object.fromEntries([...schemas].sort(byName)) };
}

/** Returns the message that the option `nullable` of a field names. */
function nullableMessage(field: DescField): DescMessage {
  const name = getOption(field, nullable);
  const found = field.parent.file.messages.find((message) => message.name === name);
  if (!found) throw new Error(`${field}: its file has no message ${name}`);
  return found;
}

/** Returns a message's name in the document: `VariableDto`, or its own name if it is a request. */
function schemaName(desc: DescMessage): string {
  return desc.name.endsWith("Request") ? desc.name : `${desc.name}Dto`;
}

const byName = ([a]: [string, unknown], [b]: [string, unknown]) => (a < b ? -1 : 1);

function scalarSchema(type: ScalarType): Schema {
  switch (type) {
    case ScalarType.BOOL:
      return { type: "boolean" };
    case ScalarType.INT32:
    case ScalarType.UINT32:
    case ScalarType.SINT32:
      return { type: "integer", format: "int32" };
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return { type: "number" };
    case ScalarType.BYTES:
      return { type: "string", contentEncoding: "base64" };
    case ScalarType.STRING:
      return { type: "string" };
    default:
      return { type: "string", pattern: "^-?[0-9]+$" };
  }
}

/** Returns the rules of a value as keywords of JSON Schema. */
function constraints(rules: FieldRules | undefined): Schema {
  if (!rules) return {};
  const { case: kind, value } = rules.type;
  const schema: Schema = {};
  if (kind === "int32") Object.assign(schema, bounds(value, ["gte", "minimum"], ["lte", "maximum"]));
  if (kind === "string") {
    Object.assign(schema, bounds(value, ["minLen", "minLength"], ["maxLen", "maxLength"]));
    if (value.pattern) schema.pattern = value.pattern;
    if (value.in.length > 0) schema.enum = value.in;
    if (value.email) schema.format = "email";
    if (value.uri) schema.format = "uri";
  }
  for (const rule of rules.cel) {
    const pattern = /^(?:this == '' \|\| )?this\.matches\('(.*)'\)$/.exec(rule.expression);
    if (pattern) schema.pattern = rule.expression.startsWith("this ==") ? `^$|${pattern[1]}` : pattern[1];
  }
  return schema;
}

function bounds(rules: object | undefined, ...names: [rule: string, keyword: string][]): Schema {
  const schema: Schema = {};
  for (const [rule, keyword] of names) {
    // Presence, not truth: 0 is a bound, and an unset bound reads as 0.
    if (rules && Object.hasOwn(rules, rule)) schema[keyword] = Number(rules[rule as never]);
  }
  return schema;
}
