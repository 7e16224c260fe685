import { type DescField, type DescMethod, getOption, ScalarType } from "@bufbuild/protobuf";
import {
  Actor,
  Bucket,
  type Http,
  http,
  Role,
  success,
} from "../../proto/gen/berth/options/v1/options_pb.ts";
import { atLeast, type RoleName } from "../../services/kit/rpc/caller-token.ts";
import { type Follow, followOf, RESUME_MEMBER } from "../streams/sse-format.ts";
import { published, type Upstream } from "../upstreams.ts";
import { type Members, membersOf } from "./json-shape.ts";

export type BucketName = "reads" | "writes" | "reveals" | "batches" | "public";

/** A path parameter: the request member it fills. */
export type PathMember = { name: string; numeric: boolean };

/** One REST route, with everything about it that does not depend on a request. */
export type Route = {
  rpc: DescMethod;
  upstream: Upstream;
  /** Path of the RPC at its service. */
  rpcPath: string;
  method: string;
  /** Path below the prefix, as annotated: `/accounts/{account_id}`. */
  template: string;
  /** Path below the prefix with `:accountId` parameters, as the router wants it. */
  pattern: string;
  pathMembers: PathMember[];
  queryMembers: Map<string, DescField>;
  bodyMembers: Members;
  isPublic: boolean;
  usersOnly: boolean;
  /** The role in the path's account that the caller needs. */
  needs: RoleName | undefined;
  bucket: BucketName;
  success: number;
  /** Whether the REST body is one member of the response, and what it is when that member is absent. */
  unwrap: "list" | "object" | undefined;
  /** Statuses of answers that are one of these members, where they are not the route's success. */
  successOf: Map<string, number>;
  etag: boolean;
  maxBody: number;
  /** Whether a success may take something from a caller: what is cached of callers is then forgotten. */
  revokes: boolean;
  /** Of a server-streaming method: how it is answered as events. It may share its path with a unary one. */
  follow: Follow | undefined;
  /** The read of the innermost thing that the path names below the account; its 404 comes before any 422. */
  named: Route | undefined;
};

const DEFAULT_MAX_BODY = 1024 * 1024;

const NEEDS: Partial<Record<Role, RoleName>> = {
  [Role.READER]: "reader",
  [Role.EDITOR]: "editor",
  [Role.OWNER]: "owner",
};

/** The annotation of a method; without a role it is refused. */
export function ruleOf(rpc: DescMethod): Http {
  const rule = getOption(rpc, http);
  if (rule.role === Role.UNSPECIFIED) throw new Error(`${nameOf(rpc)} has no role`);
  return rule;
}

const nameOf = (rpc: DescMethod) => `${rpc.parent.typeName}/${rpc.name}`;

/** The routes of all published services; an annotation that makes no sense ends the start. */
export function allRoutes(services = published): Route[] {
  const routes = services.flatMap(({ upstream, service }) =>
    service.methods.flatMap((rpc) => routesOf(upstream, rpc)),
  );
  const taken = new Map<string, string>();
  for (const route of routes) {
    const as = route.follow ? " as events" : "";
    const shape = `${route.method} ${route.template.replaceAll(/\{\w+\}/g, "{}")}${as}`;
    const other = taken.get(shape);
    if (other) throw new Error(`${nameOf(route.rpc)} and ${other} both take ${shape}`);
    taken.set(shape, nameOf(route.rpc));
  }
  for (const route of routes) route.named = namedBy(route, routes);
  return routes;
}

/** The GET of the longest part of a route's path that ends with a parameter, and that its callers may ask. */
function namedBy(route: Route, routes: Route[]): Route | undefined {
  const reads = routes.filter(
    (read) =>
      read.method === "GET" &&
      !read.follow &&
      read.template.endsWith("}") &&
      read.pathMembers.length > 1 &&
      `${route.template}/`.startsWith(`${read.template}/`) &&
      read.needs !== undefined &&
      atLeast(route.needs, read.needs) &&
      (route.usersOnly || !read.usersOnly),
  );
  return reads.sort((a, b) => b.template.length - a.template.length)[0];
}

function routesOf(upstream: Upstream, rpc: DescMethod): Route[] {
  const rule = ruleOf(rpc);
  if (rule.role === Role.SERVICE) {
    if (rule.routes.length > 0) throw new Error(`${nameOf(rpc)} is for services and must have no route`);
    return [];
  }
  if (rule.routes.length === 0) throw new Error(`${nameOf(rpc)} has no route`);
  // What one of the paths names is never a member of query or body, also where another path lacks it.
  const inPath = new Set(rule.routes.flatMap(({ path }) => pathMembersOf(rpc, path)).map(({ name }) => name));
  const follow = followOf(rpc);
  if (follow) inPath.add(RESUME_MEMBER);
  return rule.routes.map(({ method, path }) => {
    if (follow && method !== "GET") throw new Error(`${nameOf(rpc)}: a stream is read by GET`);
    const pathMembers = pathMembersOf(rpc, path);
    const needs = NEEDS[rule.role];
    if (needs && !pathMembers.some(({ name }) => name === "accountId"))
      throw new Error(`${nameOf(rpc)}: ${path} names no account`);
    return {
      rpc,
      upstream,
      rpcPath: `/${rpc.parent.typeName}/${rpc.name}`,
      method,
      template: path,
      pattern: path.replaceAll(/\{(\w+)\}/g, (_, name: string) => `:${memberOf(rpc, name).jsonName}`),
      pathMembers,
      queryMembers: queryMembersOf(rpc, method, inPath),
      bodyMembers: new Map([...membersOf(rpc.input)].filter(([name]) => !inPath.has(name))),
      isPublic: rule.role === Role.PUBLIC,
      usersOnly: rule.actor === Actor.USER,
      needs,
      bucket: bucketOf(rule, method),
      success: rule.success || 200,
      unwrap: unwrapOf(rpc, rule.unwrap),
      successOf: successOf(rpc),
      etag: rule.etag,
      maxBody: rule.maxBody || DEFAULT_MAX_BODY,
      revokes: upstream === "identity" && ["DELETE", "PATCH", "PUT"].includes(method),
      follow,
      named: undefined,
    };
  });
}

function memberOf(rpc: DescMethod, name: string): DescField {
  const field = rpc.input.fields.find((candidate) => candidate.name === name);
  if (!field) throw new Error(`${nameOf(rpc)}: ${rpc.input.name} has no member ${name}`);
  return field;
}

function pathMembersOf(rpc: DescMethod, path: string): PathMember[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map((match) => {
    const field = memberOf(rpc, match[1]!);
    if (field.scalar !== ScalarType.STRING && field.scalar !== ScalarType.INT32)
      throw new Error(`${nameOf(rpc)}: ${field.name} can not stand in a path`);
    return { name: field.jsonName, numeric: field.scalar === ScalarType.INT32 };
  });
}

// Reads take their members from the query. Writes have a body; of their members only confirmImpact may
// stand in the query as well (docs/conventions.md#requests).
function queryMembersOf(rpc: DescMethod, method: string, inPath: Set<string>): Map<string, DescField> {
  const members = rpc.input.fields.filter(
    (field) => !inPath.has(field.jsonName) && (method === "GET" || field.jsonName === "confirmImpact"),
  );
  return new Map(members.map((field) => [field.jsonName, field]));
}

function bucketOf(rule: Http, method: string): BucketName {
  if (rule.role === Role.PUBLIC) return "public";
  if (rule.bucket === Bucket.REVEAL) return "reveals";
  if (rule.bucket === Bucket.BATCH) return "batches";
  return method === "GET" ? "reads" : "writes";
}

function successOf(rpc: DescMethod): Map<string, number> {
  const own = rpc.output.fields.map((field) => [field.jsonName, getOption(field, success)] as const);
  return new Map(own.filter(([, status]) => status > 0));
}

function unwrapOf(rpc: DescMethod, unwrap: string): Route["unwrap"] {
  if (unwrap === "") return undefined;
  const { fields, oneofs } = rpc.output;
  const sole = fields.length === 1 && (unwrap === "*" || fields[0]!.name === unwrap);
  const anyOf = unwrap === "*" && oneofs.length === 1 && fields.every((field) => field.oneof === oneofs[0]);
  if (!sole && !anyOf) throw new Error(`${nameOf(rpc)}: unwrap ${unwrap} does not fit ${rpc.output.name}`);
  return sole && fields[0]!.fieldKind === "list" ? "list" : "object";
}
