import { type DescField, type DescMessage, getOption, hasOption, ScalarType } from "@bufbuild/protobuf";
import { field as fieldRules } from "../../proto/gen/buf/validate/validate_pb.ts";

export type Schema = { [keyword: string]: unknown };

/** A part of what the API answers: its schema, and what cuts it out of an answer. */
export type Shape = { schema: Schema; cut: (value: unknown) => unknown };

/** A member by its JSON name, with its own shape if it is a message. */
type Member = string | [name: string, shape: Shape];

/** Returns the shape of some members of a message. A member that an answer lacks is left out. */
export function partOf(desc: DescMessage, ...members: Member[]): Shape {
  const shapes = members.map((member) => {
    const [name, own] = typeof member === "string" ? [member, undefined] : member;
    const field = memberOf(desc, name);
    const isList = field.fieldKind === "list";
    const shape = own
      ? isList
        ? listOf(own)
        : own
      : { schema: typeOf(field), cut: (value: unknown) => value };
    return [name, shape] as const;
  });
  return objectOf(Object.fromEntries(shapes));
}

/** Returns the shape of an object of these members. */
export function objectOf(members: Record<string, Shape>): Shape {
  const properties = Object.fromEntries(Object.entries(members).map(([name, { schema }]) => [name, schema]));
  return {
    schema: { type: "object", properties },
    cut: (value) =>
      Object.fromEntries(
        Object.entries(members)
          .filter(([name]) => (value as Record<string, unknown>)?.[name] !== undefined)
          .map(([name, { cut }]) => [name, cut((value as Record<string, unknown>)[name])]),
      ),
  };
}

export function listOf({ schema, cut }: Shape): Shape {
  return { schema: { type: "array", items: schema }, cut: (value) => (value as unknown[]).map(cut) };
}

const same = (value: unknown) => value;
export const TEXT: Shape = { schema: { type: "string" }, cut: same };
export const TEXTS: Shape = listOf(TEXT);
export const NUMBER: Shape = { schema: { type: "number" }, cut: same };
/** What is described nowhere but in the answer itself. */
export const ANY: Shape = { schema: { type: "object" }, cut: same };

/** Returns the schema of an argument that is a member of a request message. */
export function argumentOf(desc: DescMessage, name: string, description?: string): Schema {
  const field = memberOf(desc, name);
  const rules = hasOption(field, fieldRules) ? getOption(field, fieldRules).type : undefined;
  const choices = rules?.case === "string" && rules.value.in.length > 0 ? { enum: rules.value.in } : {};
  return { ...typeOf(field), ...choices, ...(description && { description }) };
}

/** Returns the schema of an object of some members of a request message. */
export function argumentsOf(
  desc: DescMessage,
  members: (string | [string, Schema])[],
  required: string[] = [],
): Schema {
  const entries = members.map((member) =>
    typeof member === "string"
      ? [member, argumentOf(desc, member)]
      : [memberOf(desc, member[0]).jsonName, member[1]],
  );
  return {
    type: "object",
    properties: Object.fromEntries(entries),
    ...(required.length > 0 && { required }),
  };
}

function memberOf(desc: DescMessage, name: string): DescField {
  const field = desc.fields.find(({ jsonName }) => jsonName === name);
  if (!field) throw new Error(`${desc.typeName} has no member ${name}`);
  return field;
}

function typeOf(field: DescField): Schema {
  if (field.fieldKind === "list")
    return { type: "array", items: { type: field.message ? "object" : "string" } };
  if (field.fieldKind === "map") return { type: "object" };
  if (field.message) {
    const isTime = field.message.typeName === "google.protobuf.Timestamp";
    return { type: isTime ? "string" : "object" };
  }
  switch (field.scalar) {
    case ScalarType.BOOL:
      return { type: "boolean" };
    case ScalarType.INT32:
      return { type: "integer" };
    case ScalarType.DOUBLE:
      return { type: "number" };
    default:
      return { type: "string" };
  }
}
