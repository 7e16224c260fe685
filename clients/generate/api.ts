import { type At, type Document, type Operation, operationsOf, refusalsOf, type Schema } from "./document.ts";
import { METHODS, NOT_OFFERED } from "./methods.ts";
import { docComment, typeOf } from "./types.ts";

/** The path parameters that together say where something is; each needs those before it. */
const ADDRESS = ["accountId", "projectId", "environmentId", "service"];
const ADDRESS_TYPES = ["AccountAddress", "ProjectAddress", "EnvironmentAddress", "ServiceAddress"];

const HEAD = `/** All operations of the API, each a method of its subject. */
export class Operations {
readonly #caller: Caller;

constructor(caller: Caller) {
this.#caller = caller;
}

`;

/** One method of the client. */
type Method = {
  name: string;
  verb: string;
  id: string;
  isStream: boolean;
  isTable: boolean;
  at: At[];
  operation: Operation;
};

/** Returns the functions of all methods, by namespace, and the refusals of each. */
export function apiOf(document: Document): { functions: string; refusals: string } {
  const operations = operationsOf(document);
  const namespaces = Object.entries(METHODS).map(([namespace, verbs]) => {
    const methods = Object.entries(verbs).map(([verb, named]) => {
      const [id, kind] = named.split("#") as [string, string?];
      const at = operations.get(id);
      if (!at) throw new Error(`${namespace}.${verb}: the document has no operation ${id}`);
      return {
        name: `${namespace}.${verb}`,
        verb,
        id,
        isStream: kind === "events",
        isTable: kind === "csv",
        at,
        operation: at[0]!.operation,
      };
    });
    return { namespace, methods };
  });
  const methods = namespaces.flatMap((one) => one.methods);
  const named = new Set([...methods.map(({ id }) => id), ...NOT_OFFERED]);
  const missing = [...operations.keys()].filter((id) => !named.has(id));
  if (missing.length > 0)
    throw new Error(`clients/generate/methods.ts has no method for ${missing.join(", ")}`);
  const bodies = namespaces.map(
    ({ namespace, methods }) => `readonly ${namespace} = {\n${methods.map(functionOf).join("")}};\n\n`,
  );
  return {
    functions: `${HEAD}${bodies.join("")}}\n`,
    refusals: `export type Refusals = {\n${methods.map((method) => refusalType(method, document)).join("")}};\n`,
  };
}

function functionOf(method: Method): string {
  const { verb, operation } = method;
  const takes = parametersOf(method);
  const declared = [...takes.map(({ name, type, optional }) => `${name}${optional ? "?" : ""}: ${type}`)];
  const [text, result] = method.isStream ? streamCall(method) : unaryCall(method);
  const doc = docComment(operation.description);
  if (result !== "dry run")
    return `${doc}${verb}: (${[...declared, `options?: ${optionsOf(method)}`].join(", ")}): ${result} =>\n${text},\n`;
  return `${doc}${verb}: ((${[...declared, `options?: ${optionsOf(method)}`].join(", ")}) =>\n${text}) as ${dryRunType(method)},\n`;
}

const optionsOf = ({ isStream }: Method) => (isStream ? "StreamOptions" : "CallOptions");

type Taken = { name: string; type: string; optional?: boolean };

/** Returns what a method takes before its options: where, which one, and what. */
function parametersOf({ at, operation, isStream }: Method): Taken[] {
  const { rest } = splitPath(at[0]!.path);
  const types = at.map(({ path }) => splitPath(path).depth).map((depth) => ADDRESS_TYPES[depth - 1]);
  const taken: Taken[] = types[0] ? [{ name: "at", type: types.join(" | ") }] : [];
  for (const name of rest) {
    const schema = operation.parameters.find((parameter) => parameter.name === name)!.schema;
    taken.push({ name, type: typeOf(schema) });
  }
  const body = operation.requestBody;
  if (body)
    taken.push({
      name: "body",
      type: typeOf(body.content["application/json"]!.schema),
      optional: !body.required,
    });
  else if (queryOf(operation, isStream).length > 0) {
    const query = queryOf(operation, isStream);
    const members = query.map(
      ({ name, required, schema, description }) =>
        `${docComment(description)}${name}${required ? "" : "?"}: ${typeOf(schema)}`,
    );
    taken.push({
      name: "query",
      type: `{ ${members.join("; ")} }`,
      optional: query.every(({ required }) => !required),
    });
  }
  return taken;
}

/** Returns the query parameters of a GET; a page's cursor is the client's own matter, and a stream takes no page. */
function queryOf(operation: Operation, isStream: boolean) {
  const isList = listed(operation) !== undefined;
  return operation.parameters.filter(
    ({ in: position, name }) =>
      position === "query" &&
      !(name === "cursor" && (isList || isStream)) &&
      !(operation.requestBody !== undefined),
  );
}

/** Splits a path into how many parts of an address it begins with, and its further parameters. */
function splitPath(path: string): { depth: number; rest: string[] } {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  let depth = 0;
  while (names[depth] !== undefined && names[depth] === ADDRESS[depth]) depth++;
  return { depth, rest: names.slice(depth) };
}

/** Returns the expression of a path. */
function pathOf(at: At[]): string {
  const depths = at.map(({ path }) => splitPath(path).depth);
  const [least, most] = [Math.min(...depths), Math.max(...depths)];
  let rest = at[0]!.path;
  for (const name of ADDRESS.slice(0, depths[0]))
    rest = rest.slice(rest.indexOf(`{${name}}`) + name.length + 2);
  const further = rest.replaceAll(/\{(\w+)\}/g, (_, name) => `\${part(${name})}`);
  if (least === 0) return `\`${further}\``;
  return `\`\${pathTo(at, ${least === most ? least : `${least}, ${most}`})}${further}\``;
}

const jsonOf = ({ content }: { content?: Operation["responses"][string]["content"] }) =>
  content?.["application/json"]?.schema;

/** Returns the successes of an operation that have a body, by status. */
const successes = ({ responses }: Operation): [string, Schema][] =>
  Object.entries(responses).flatMap(([status, response]) => {
    const schema = status.startsWith("2") ? jsonOf(response) : undefined;
    return schema ? [[status, schema]] : [];
  });

/** Returns the name of a list's page, such as `DeploymentsPage`. */
function listed(operation: Operation): string | undefined {
  const [success] = successes(operation);
  const name = success?.[1].$ref?.split("/").at(-1);
  return name?.endsWith("PageDto") && name !== "PageDto" ? name.slice(0, -3) : undefined;
}

/** Returns the call of a unary operation and the type of its result. */
function unaryCall({ at, operation, id, isTable }: Method): [text: string, result: string] {
  const [{ method }] = at as [At];
  const path = pathOf(at);
  if (isTable)
    return [`this.#caller.call<string>("GET", ${path}, { accept: "text/csv", options })`, "Promise<string>"];
  const page = listed(operation);
  if (page)
    return [
      `new Pages<${page}>((cursor) => this.#caller.call("GET", ${path}, { query: { ...query, cursor }, options }))`,
      `Pages<${page}>`,
    ];
  const results = successes(operation);
  const type = results.length === 0 ? "void" : results.map(([, schema]) => typeOf(schema)).join(" | ");
  const sent = [
    ...(operation.requestBody ? ["body"] : []),
    ...(queryOf(operation, false).length > 0 ? ["query"] : []),
    "options",
    // Of others a second try would not be known to be the same.
    ...(method === "POST" && !operation.parameters.some(({ $ref }) => $ref?.endsWith("/IdempotencyKey"))
      ? ["once: true"]
      : []),
    ...(method === "DELETE" && results.length === 0 ? ["deletes: true"] : []),
  ];
  const text = `this.#caller.call<${type}>(${JSON.stringify(method)}, ${path}, { ${sent.join(", ")} })`;
  return [text, results.length > 1 && id ? "dry run" : `Promise<${type}>`];
}

/** Returns the type of a method whose answer to a dry run is another one. */
function dryRunType(method: Method): string {
  const { 200: dry, 202: real } = Object.fromEntries(successes(method.operation)) as Record<string, Schema>;
  const [at, body] = parametersOf(method) as [Taken, Taken];
  const takes = (dryRun: string) =>
    `(at: ${at.type}, body${body.optional ? "?" : ""}: ${body.type} & { dryRun${dryRun === "true" ? "" : "?"}: ${dryRun} }, options?: CallOptions)`;
  const required = takes("true").replace("body?:", "body:");
  return `{ ${required}: Promise<${typeOf(dry!)}>; ${takes("false")}: Promise<${typeOf(real!)}> }`;
}

/** Returns the call of a stream and the type of its events. */
function streamCall({ at, operation }: Method): [text: string, result: string] {
  const events = Object.values(operation.responses).flatMap(({ content }) =>
    Object.entries(content?.["text/event-stream"]?.["x-events"] ?? {}),
  );
  const type = events
    .map(([name, schema]) => `StreamEvent<${JSON.stringify(name)}, ${typeOf(schema)}>`)
    .join(" | ");
  const query = queryOf(operation, true).length > 0 ? "query, " : "";
  return [
    `this.#caller.follow<${type}>(${pathOf(at)}, { ${query}options })`,
    `AsyncGenerator<${type}, void>`,
  ];
}

function refusalType({ name, at }: Method, document: Document): string {
  const codes = new Map<string, Set<string>>();
  for (const { operation } of at)
    for (const [code, reasons] of refusalsOf(operation, document))
      codes.set(code, new Set([...(codes.get(code) ?? []), ...reasons]));
  const members = [...codes].map(([code, reasons]) => {
    const type = [...reasons].map((reason) => JSON.stringify(reason)).join(" | ") || "never";
    return `${code}: ${type}`;
  });
  return `${JSON.stringify(name)}: { ${members.join("; ")} };\n`;
}
