import type { Document, Schema } from "./document.ts";

/** Returns the name of a schema in the client: `Variable` for `VariableDto`. */
export const typeName = (name: string) => name.replace(/Dto$/, "");

/** Returns a schema as a type: that of the JSON, with optional members optional. */
export function typeOf(schema: Schema): string {
  if (schema.$ref) return typeName(schema.$ref.split("/").at(-1)!);
  const options = schema.anyOf ?? schema.oneOf;
  if (options) return options.map(typeOf).join(" | ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") {
    const item = typeOf(schema.items!);
    return item.includes(" ") ? `(${item})[]` : `${item}[]`;
  }
  if (schema.type === "integer") return "number";
  if (schema.type !== "object") return schema.type!;
  if (schema.properties && Object.keys(schema.properties).length === 0) return "Record<string, never>";
  if (schema.properties) return objectType(schema);
  const values =
    typeof schema.additionalProperties === "object" ? typeOf(schema.additionalProperties) : "unknown";
  return `Record<string, ${values}>`;
}

function objectType({ properties = {}, required = [] }: Schema): string {
  const members = Object.entries(properties).map(
    ([name, schema]) =>
      `${docComment(schema.description)}${name}${required.includes(name) ? "" : "?"}: ${typeOf(schema)};\n`,
  );
  return `{\n${members.join("")}}`;
}

/** Returns a doc comment, or nothing without a text. */
export function docComment(text = ""): string {
  if (text === "") return "";
  const lines = text.replaceAll("*/", "*\\/").split("\n");
  return lines.length === 1
    ? `/** ${lines[0]} */\n`
    : `/**\n${lines.map((line) => ` * ${line}\n`).join("")} */\n`;
}

/** Returns the types of all shapes that the API takes and gives. */
export function typesOf({ components }: Document): string {
  return Object.entries(components.schemas)
    .filter(([name]) => name !== "ErrorEnvelopeDto" && name !== "RegistrationErrorDto")
    .map(
      ([name, schema]) =>
        `${docComment(schema.description)}export type ${typeName(name)} = ${typeOf(schema)};\n`,
    )
    .join("\n");
}
