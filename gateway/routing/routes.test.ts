import { readdirSync } from "node:fs";
import { join } from "node:path";
import {
  create,
  type DescFile,
  type DescMethod,
  fromJson,
  getOption,
  type JsonValue,
  type MessageInitShape,
  setExtension,
} from "@bufbuild/protobuf";
import { MethodOptionsSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { InternalService } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import { method as methodRules, Role } from "../../proto/gen/berth/options/v1/options_pb.ts";
import { http } from "../../proto/gen/google/api/annotations_pb.ts";
import { HttpRuleSchema } from "../../proto/gen/google/api/http_pb.ts";
import { rulesOf } from "../../services/kit/rpc/interceptor.ts";
import { refusalsOf } from "../docs/generate/errors/refusals.ts";
import { readExamples } from "../docs/generate/examples.ts";
import { published } from "../upstreams.ts";
import { allRoutes, bindingsOf, type Route } from "./routes.ts";

const methods = published.flatMap(({ service }) => service.methods);
const routes = allRoutes();
const examples = readExamples(join(import.meta.dirname, "../../proto/examples"));
const routesOf = (rpc: DescMethod) => routes.filter((route) => route.rpc === rpc);

test.each(methods.map((rpc) => [`${rpc.parent.name}.${rpc.name}`, rpc]))("%s is complete", (_, rpc) => {
  const bindings = bindingsOf(rpc);
  expect(rulesOf(rpc).role).not.toBe(Role.UNSPECIFIED);
  expect(routesOf(rpc).length).toBe(bindings.length);
  expect(bindings.length).toBeGreaterThan(0);
  for (const route of routesOf(rpc)) complete(route);
});

function complete(route: Route): void {
  const { request } = exampleOf(route.rpc);
  expect([200, 201, 202, 204]).toContain(route.success);
  expect(["GET", "POST", "PATCH", "PUT", "DELETE"]).toContain(route.method);
  if (route.success !== 204) expect(answerOf(route)).toBeDefined();
  if (request) {
    expect(fromJson(route.rpc.input, request as JsonValue)).toBeDefined();
    expect([...route.bodyMembers.keys()]).toEqual(expect.arrayContaining(Object.keys(request)));
  }
  if (["POST", "PATCH", "PUT"].includes(route.method) && route.bodyMembers.size > 0)
    expect(request, "a request example").toBeDefined();
  for (const { status, code, reasons } of refusalsOf(route)) {
    expect(status).toBeGreaterThanOrEqual(400);
    expect(code).toMatch(/^[a-z_]+$/);
    for (const reason of reasons) expect(reason).toMatch(/^[a-z_]+$/);
    if (code === "validation_failed") expect(reasons, "reasons").not.toEqual([]);
  }
  // Whatever stands below an account's project can be missing.
  if (route.pathMembers.length > 1) expect(refusalsOf(route).map(({ status }) => status)).toContain(404);
}

const exampleOf = (rpc: DescMethod) => examples.get(`${rpc.parent.name}.${rpc.name}`) ?? {};

/** The response example, read as the message that it is, or as one of those it can be. */
function answerOf({ rpc, unwrap }: Route): unknown {
  const { response } = exampleOf(rpc);
  expect(response, "a response example").toBeDefined();
  if (!unwrap) return fromJson(rpc.output, response as JsonValue);
  const fits = rpc.output.fields.filter((field) => {
    try {
      return fromJson(rpc.output, { [field.jsonName]: response as JsonValue });
    } catch {
      return false;
    }
  });
  expect(fits.length).toBe(1);
  return fits[0];
}

test("every example is of an RPC that has routes", () => {
  const named = routes.map(({ rpc }) => `${rpc.parent.name}.${rpc.name}`);
  expect([...examples.keys()].filter((name) => !named.includes(name))).toEqual([]);
});

test("every service of the protos is published, or internal: its methods are for services, and have no paths", async () => {
  const root = join(import.meta.dirname, "../../proto/gen/berth");
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith("_pb.ts"),
  );
  const services = [];
  for (const name of files) {
    const module = (await import(join(root, name))) as Record<string, unknown>;
    const file = Object.values(module).find(
      (value) => (value as DescFile | null)?.kind === "file",
    ) as DescFile;
    services.push(...file.services);
  }
  const { internal = [], open = [] } = Object.groupBy(services, ({ name }) =>
    name === "InternalService" ? "internal" : "open",
  );
  expect(published.map(({ service }) => service.typeName).sort()).toEqual(
    open.map(({ typeName }) => typeName).sort(),
  );
  const internalMethods = internal.flatMap((service) => service.methods);
  expect(internalMethods.length).toBeGreaterThan(0);
  for (const rpc of internalMethods) {
    expect(rulesOf(rpc).role).toBe(Role.SERVICE);
    expect(bindingsOf(rpc)).toEqual([]);
  }
});

test("a service is published by the process that owns its package", () => {
  for (const { upstream, service } of published) expect(service.typeName).toMatch(`berth.${upstream}.v1.`);
});

test("what a path names is no member of query or body, at none of the method's bases", () => {
  const create = routes.filter((route) => route.rpc.name === "CreateVariable");
  expect(create.map((route) => route.pathMembers.length)).toEqual([2, 3, 4]);
  for (const route of create)
    expect([...route.bodyMembers.keys()]).toEqual([
      "name",
      "value",
      "connection",
      "aliasTarget",
      "sensitive",
    ]);
});

test("only confirmImpact may stand in the query of a write", () => {
  const writes = routes.filter((route) => route.method !== "GET");
  expect(new Set(writes.flatMap((route) => [...route.queryMembers.keys()]))).toEqual(
    new Set(["confirmImpact"]),
  );
});

/** A published method, with other paths. */
function bound(name: string, rule: MessageInitShape<typeof HttpRuleSchema>) {
  const rpc = methods.find((method) => method.name === name)!;
  const options = create(MethodOptionsSchema);
  setExtension(options, methodRules, getOption(rpc, methodRules));
  setExtension(options, http, create(HttpRuleSchema, rule));
  const changed = { ...rpc, proto: { ...rpc.proto, options } };
  return () => allRoutes([{ upstream: "deployer", service: { ...rpc.parent, methods: [changed] } }]);
}

test("paths that do not fit their method end the start, each with a sentence", () => {
  const account = "/accounts/{account_id}/x";
  const post = { pattern: { case: "post", value: account } } as const;
  const get = { pattern: { case: "get", value: account } } as const;
  expect(bound("CreateProject", { ...post, body: "*" })()).toHaveLength(1);
  expect(bound("CreateProject", post)).toThrow('/accounts/{account_id}/x must have the body "*"');
  expect(bound("ListProjects", { ...get, body: "*" })).toThrow('must have the body ""');
  expect(bound("CreateProject", { ...post, body: "*", additionalBindings: [get] })).toThrow("must take POST");
  expect(bound("CreateProject", { ...post, pattern: { case: "post", value: "/x" }, body: "*" })).toThrow(
    "names no account",
  );
  const stream = "/accounts/{account_id}/{project_id}/{environment_id}/{service}/{version}";
  expect(bound("FollowDeployment", { pattern: { case: "post", value: stream } })).toThrow("is read by GET");
  expect(bound("CreateProject", {})).toThrow("has no route");
  const internal = { upstream: "identity", service: InternalService } as const;
  expect(() => allRoutes([internal])).toThrow("is for services and cannot have a route");
});
