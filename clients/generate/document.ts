import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** The parts of the API's document (OpenAPI 3.1) that the client is made of. */
export type Schema = {
  $ref?: string;
  type?: string;
  description?: string;
  enum?: string[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | boolean;
};

type Parameter = {
  $ref?: string;
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema: Schema;
};
type Content = { schema: Schema; "x-events"?: Record<string, Schema> };
type Code = { code: string; reasons: string[] };
export type Response = { $ref?: string; content?: Record<string, Content>; "x-codes"?: Code[] };

export type Operation = {
  operationId: string;
  description: string;
  parameters: Parameter[];
  requestBody?: { required: boolean; content: Record<string, Content> };
  responses: Record<string, Response>;
};

export type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema>; responses: Record<string, Response> };
};

/** One operation at one of its paths. */
export type At = { method: string; path: string; operation: Operation };

/** Reads the document, which `npm run generate` writes before the client. */
export async function readDocument(): Promise<Document> {
  const file = join(import.meta.dirname, "../../gateway/openapi.json");
  return JSON.parse(await readFile(file, "utf8")) as Document;
}

/** Returns all operations by their id without the path that it adds: `listVariables` has three paths. */
export function operationsOf({ paths }: Document): Map<string, At[]> {
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  return Map.groupBy(all, ({ operation }) => operation.operationId.replace(/At(Environment|Service)$/, ""));
}

/** Returns the codes with which an operation refuses, each with the reasons of its details. */
export function refusalsOf({ responses }: Operation, { components }: Document): Map<string, string[]> {
  const codes = Object.values(responses).flatMap((response) => {
    const resolved = response.$ref ? components.responses[response.$ref.split("/").at(-1)!]! : response;
    return resolved["x-codes"] ?? [];
  });
  return new Map(codes.map(({ code, reasons }) => [code, reasons]));
}
