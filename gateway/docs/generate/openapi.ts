import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { MethodRules } from "../../../proto/gen/berth/options/v1/options_pb.ts";
import { rulesOf } from "../../../services/kit/rpc/interceptor.ts";
import { allRoutes, bindingsOf, type Route } from "../../routing/routes.ts";
import { published } from "../../upstreams.ts";
import { type Comments, readComments } from "./comments.ts";
import { eventContent, eventsSentence, withEvents } from "./events.ts";
import { errorResponses, fixedComponents } from "./refusals.ts";
import { type Schema, schemaCollector } from "./schemas.ts";

const file = join(import.meta.dirname, "../../openapi.json");

/** The OpenAPI 3.1 document of all routes. Its server is put in by the gateway that serves it. */
export function openapi(comments: Comments): Schema {
  const schemas = schemaCollector(comments);
  const routes = allRoutes();
  for (const { rpc } of routes) schemas.ask(rpc.input);
  const paths: Record<string, Record<string, Schema>> = {};
  const streamsLast = routes.toSorted((a, b) => Number(!!a.follow) - Number(!!b.follow));
  for (const route of streamsLast) {
    const path = pathOf(route);
    const method = route.method.toLowerCase();
    const made = operation(route, schemas, comments);
    const json = paths[path]?.[method];
    paths[path] = { ...paths[path], [method]: json ? withEvents(json, made) : made };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Berth",
      version: "1",
      description:
        "Accounts, projects, environments, services, variables and deployments of your own platform.\n\n" +
        "Every request but a sign-in carries `Authorization: Bearer <token>`. Every answer carries " +
        "`X-Request-Id` and, where a limit holds, `RateLimit-Limit`, `RateLimit-Remaining` and " +
        "`RateLimit-Reset` (seconds). Every error has the same envelope, `ErrorEnvelopeDto`; `429` and " +
        "`503` say in `Retry-After` when to try again. Lists are paged, newest first: pass " +
        `\`page.nextCursor\` as \`cursor\`.\n\n${eventsSentence}`,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/v1" }],
    security: [{ bearer: [] }],
    tags: published.map(({ service }) => ({
      name: tagOf(service.name),
      description: comments.get(service.typeName) ?? "",
    })),
    paths,
    components: { ...fixedComponents, schemas: { ...schemas.all(), ...fixedComponents.schemas } },
  };
}

const tagOf = (service: string) => service.replace(/Service$/, "");
const pathOf = (route: Route) =>
  route.template.replaceAll(/\{(\w+)\}/g, (_, name: string) => `{${camel(name)}}`);
const camel = (name: string) => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

type Schemas = ReturnType<typeof schemaCollector>;

function operation(route: Route, schemas: Schemas, comments: Comments): Schema {
  const { rpc } = route;
  const rule = rulesOf(rpc);
  const comment = comments.get(`${rpc.parent.typeName}.${rpc.name}`);
  const words = rpc.name.replaceAll(/(?<!^)[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  const needs = route.isPublic ? "none" : (route.needs ?? "signed in");
  return {
    operationId: operationId(route),
    summary: words,
    description: [comment, `Role: ${needs}.${route.usersOnly ? " Users only." : ""}`]
      .filter(Boolean)
      .join("\n\n"),
    tags: [tagOf(rpc.parent.name)],
    ...(route.isPublic && { security: [] }),
    parameters: parameters(route, rule, schemas),
    ...requestBody(route, rule, schemas),
    responses: { ...successes(route, rule, schemas), ...errorResponses(route) },
    "x-role": needs,
    "x-rate-limit": route.bucket,
  };
}

/** The RPC's name; at a further base, with what that base adds: `listVariablesAtService`. */
function operationId(route: Route): string {
  const name = route.rpc.name[0]!.toLowerCase() + route.rpc.name.slice(1);
  const first = bindingsOf(route.rpc)[0]!.path;
  if (route.template === first) return name;
  const added = [...route.template.matchAll(/\{(\w+)\}/g)].filter(([match]) => !first.includes(match)).at(-1);
  const base = camel((added?.[1] ?? "").replace(/_id$/, ""));
  return `${name}At${base[0]!.toUpperCase()}${base.slice(1)}`;
}

function parameters(route: Route, rule: MethodRules, schemas: Schemas): Schema[] {
  const byName = new Map(route.rpc.input.fields.map((field) => [field.jsonName, field]));
  const inPath = route.pathMembers.map(({ name }) => {
    const { description, ...schema } = schemas.fieldSchema(byName.get(name)!);
    return { name, in: "path", required: true, schema, ...(description !== undefined && { description }) };
  });
  const inQuery = [...route.queryMembers].map(([name, field]) => {
    const { description, ...schema } = schemas.fieldSchema(field);
    const standard = {
      limit: "Entries on a page; 20 unless given.",
      cursor: "Where to go on: `page.nextCursor`.",
    };
    const said = description ?? standard[name as keyof typeof standard];
    return { name, in: "query", schema, ...(said !== undefined && { description: said }) };
  });
  const headers: string[] = [];
  if (route.method === "POST" && !route.isPublic) headers.push("IdempotencyKey");
  if (route.method === "GET" && route.etag) headers.push("IfNoneMatch");
  if (rule.refusals.some(({ code }) => code === "revision_conflict")) headers.push("IfMatch");
  if (route.follow?.resumes) headers.push("LastEventId");
  return [...inPath, ...inQuery, ...headers.map((name) => ({ $ref: `#/components/parameters/${name}` }))];
}

function requestBody(route: Route, rule: MethodRules, schemas: Schemas): Schema {
  if (route.method === "GET" || route.bodyMembers.size === 0) return {};
  const { input } = route.rpc;
  const inPath = new Set(input.fields.map((f) => f.jsonName).filter((name) => !route.bodyMembers.has(name)));
  const required = input.fields.some(
    (field) =>
      route.bodyMembers.has(field.jsonName) && !field.proto.proto3Optional && !isMany(field.fieldKind),
  );
  return {
    requestBody: {
      required,
      content: {
        "application/json": { schema: schemas.reference(input, inPath), ...example(rule.requestExample) },
      },
    },
  };
}

const isMany = (kind: string) => kind === "list" || kind === "map";
const example = (text: string): Schema => (text === "" ? {} : { example: JSON.parse(text) });

/** The route's success, and those of members of the answer with a status of their own. */
function successes(route: Route, rule: MethodRules, schemas: Schemas): Schema {
  const others = route.rpc.output.fields.flatMap((field) => {
    const status = route.successOf.get(field.jsonName);
    const schema = schemas.fieldSchema(field);
    const said = { description: "Done.", content: { "application/json": { schema } } };
    return status ? [[status, said] as const] : [];
  });
  return { ...Object.fromEntries(others), [route.success]: success(route, rule, schemas) };
}

function success(route: Route, rule: MethodRules, schemas: Schemas): Schema {
  const description =
    { 200: "Done.", 201: "Created.", 202: "Accepted.", 204: "Done; no body." }[route.success] ?? "Done.";
  if (route.success === 204) return { description };
  if (route.follow) return { description, content: eventContent(route, rule, schemas) };
  const schema = responseSchema(route, schemas);
  return {
    description,
    ...(route.etag && { headers: { ETag: { $ref: "#/components/headers/ETag" } } }),
    content: { "application/json": { schema, ...example(rule.responseExample) } },
  };
}

function responseSchema({ rpc, unwrap, successOf }: Route, schemas: Schemas): Schema {
  if (!unwrap) return schemas.reference(rpc.output);
  const fields = rpc.output.fields.filter((field) => !successOf.has(field.jsonName));
  const options = fields.map((field) => schemas.fieldSchema(field));
  return options.length === 1 ? options[0]! : { oneOf: options };
}

if (import.meta.main) {
  const text = `${JSON.stringify(openapi(readComments(join(import.meta.dirname, "../../../proto"))), null, 2)}\n`;
  if (!process.argv.includes("--check")) await writeFile(file, text);
  else if ((await readFile(file, "utf8").catch(() => "")) !== text) {
    process.stderr.write("gateway/openapi.json is stale: run node gateway/docs/generate/openapi.ts\n");
    process.exitCode = 1;
  }
}
