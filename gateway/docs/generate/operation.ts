import type { DescField } from "@bufbuild/protobuf";
import { bindingsOf, type Route } from "../../routing/routes.ts";
import { CSV, toCsv } from "../../upstream/csv.ts";
import type { Comments } from "./comments.ts";
import { errorResponses } from "./errors/error-responses.ts";
import { refusalsOf } from "./errors/refusals.ts";
import { eventContent } from "./events.ts";
import type { Example, Examples } from "./examples.ts";
import type { Schema, Schemas } from "./schemas.ts";

/** What operations are made of, besides their routes. */
export type Sources = { schemas: Schemas; comments: Comments; examples: Examples };

/** Returns the operation of a route: its parameters, body and responses, the role it needs, its rate limit. */
export function operation(route: Route, { schemas, comments, examples }: Sources): Schema {
  const { rpc } = route;
  const example = examples.get(`${rpc.parent.name}.${rpc.name}`) ?? {};
  const comment = comments.get(`${rpc.parent.typeName}.${rpc.name}`);
  const needs = route.isPublic ? "none" : (route.needs ?? "signed in");
  const { machineNeeds } = route;
  const ofMachines = machineNeeds ? ` Machines: ${machineNeeds}.` : "";
  const role = `Role: ${needs}.${route.usersOnly ? " Users only." : ofMachines}`;
  return {
    operationId: operationId(route),
    summary: rpc.name.replaceAll(/(?<!^)[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`),
    description: [comment, role].filter(Boolean).join("\n\n"),
    tags: [tagOf(rpc.parent.name)],
    ...(route.isPublic && { security: [] }),
    parameters: parameters(route, schemas),
    ...requestBody(route, example, schemas),
    responses: { ...successes(route, example, schemas), ...errorResponses(route) },
    "x-role": needs,
    ...(machineNeeds && { "x-machine-role": machineNeeds }),
    "x-rate-limit": route.bucket,
  };
}

export const tagOf = (service: string) => service.replace(/Service$/, "");
export const camelCase = (name: string) =>
  name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** Returns the RPC's name; for an additional path, with what that path adds: `listVariablesAtService`. */
function operationId({ rpc, template }: Route): string {
  const name = rpc.name[0]!.toLowerCase() + rpc.name.slice(1);
  const canonical = bindingsOf(rpc)[0]!.path;
  if (template === canonical) return name;
  const added = [...template.matchAll(/\{(\w+)\}/g)].filter(([match]) => !canonical.includes(match)).at(-1);
  const base = camelCase((added?.[1] ?? "").replace(/_id$/, ""));
  return `${name}At${base[0]!.toUpperCase()}${base.slice(1)}`;
}

const PAGING: Record<string, string> = {
  limit: "The number of entries per page. Defaults to 20.",
  cursor: "The `page.nextCursor` of the previous page.",
};

function parameters(route: Route, schemas: Schemas): Schema[] {
  const fields = new Map(route.rpc.input.fields.map((field) => [field.jsonName, field]));
  const parameter = (name: string, position: object, field: DescField) => {
    const { description = PAGING[name], ...schema } = schemas.fieldSchema(field);
    return { name, ...position, schema, ...(description !== undefined && { description }) };
  };
  return [
    ...route.pathMembers.map(({ name }) =>
      parameter(name, { in: "path", required: true }, fields.get(name)!),
    ),
    ...[...route.queryMembers].map(([name, field]) => parameter(name, { in: "query" }, field)),
    ...headersOf(route).map((name) => ({ $ref: `#/components/parameters/${name}` })),
  ];
}

function headersOf(route: Route): string[] {
  const headers = [];
  if (route.method === "POST" && !route.isPublic) headers.push("IdempotencyKey");
  if (route.method === "GET" && route.etag) headers.push("IfNoneMatch");
  if (refusalsOf(route).some(({ code }) => code === "revision_conflict")) headers.push("IfMatch");
  if (route.follow?.resumes) headers.push("LastEventId");
  return headers;
}

function requestBody(route: Route, { request }: Example, schemas: Schemas): Schema {
  if (route.method === "GET" || route.bodyMembers.size === 0) return {};
  const { input } = route.rpc;
  const inBody = input.fields.filter(({ jsonName }) => route.bodyMembers.has(jsonName));
  const elsewhere = input.fields.filter((field) => !inBody.includes(field));
  const required = inBody.some(
    ({ proto, fieldKind }) => !proto.proto3Optional && fieldKind !== "list" && fieldKind !== "map",
  );
  const schema = schemas.reference(input, new Set(elsewhere.map(({ jsonName }) => jsonName)));
  return { requestBody: { required, content: json(schema, request) } };
}

const json = (schema: Schema, example?: object): Schema => ({
  "application/json": { schema, ...(example && { example }) },
});

/** Returns the success of a route, and those of members of its response that have a status of their own. */
function successes(route: Route, example: Example, schemas: Schemas): Schema {
  const others = route.rpc.output.fields.flatMap((field) => {
    const status = route.successOf.get(field.jsonName);
    return status ? [[status, { description: "Done.", content: json(schemas.fieldSchema(field)) }]] : [];
  });
  return { ...Object.fromEntries(others), [route.success]: success(route, example, schemas) };
}

const SUCCESSES: Record<number, string> = {
  201: "Created.",
  202: "Accepted.",
  204: "Done. The response has no body.",
};

function success(route: Route, { response }: Example, schemas: Schemas): Schema {
  const description = SUCCESSES[route.success] ?? "Done.";
  if (route.success === 204) return { description };
  if (route.follow) return { description, content: eventContent(route, response, schemas) };
  const headers = { ETag: { $ref: "#/components/headers/ETag" } };
  return {
    description,
    ...(route.etag && { headers }),
    content: { ...json(responseSchema(route, schemas), response), ...tableContent(route, response) },
  };
}

function tableContent({ table }: Route, response: object | undefined): Schema {
  if (!table) return {};
  const example = toCsv(table, Buffer.from(JSON.stringify(response))).toString();
  return { [CSV]: { schema: { type: "string", description: "The first row names the columns." }, example } };
}

function responseSchema({ rpc, unwrap, successOf }: Route, schemas: Schemas): Schema {
  if (!unwrap) return schemas.reference(rpc.output);
  const fields = rpc.output.fields.filter((field) => !successOf.has(field.jsonName));
  const options = fields.map((field) => schemas.fieldSchema(field));
  return options.length === 1 ? options[0]! : { oneOf: options };
}
