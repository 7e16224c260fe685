import { type DescField, type DescMessage, type DescMethod, getOption, ScalarType } from "@bufbuild/protobuf";
import {
  Actor,
  Bucket,
  type MethodRules,
  Role,
  success,
} from "../../proto/gen/berth/options/v1/options_pb.ts";
import { http } from "../../proto/gen/google/api/annotations_pb.ts";
import { atLeast, type RoleName } from "../../services/kit/rpc/caller-token.ts";
import { maxBodyOf, requiredRole, rulesOf } from "../../services/kit/rpc/interceptor.ts";
import { unboundedIn } from "../../services/kit/rpc/json/json-bounds.ts";
import { published, type Upstream } from "../upstreams.ts";
import { type Follow, followOf, RESUME_MEMBER } from "./follow.ts";
import { type Members, membersOf } from "./json-shape.ts";
import { type Table, tableOf } from "./table.ts";

/** What is limited apart (docs/conventions.md#rate-limits): a route's own, and those of the OAuth protocol. */
export const buckets = [
  ...(["reads", "writes", "reveals", "setReveals", "batches", "decisions", "newTokens"] as const),
  ...(["loginRequests", "signIns", "passwordResets", "links", "unsubscriptions", "authorizations"] as const),
  ...(["tokens", "tokenFailures", "registrations", "registrationsDaily"] as const),
];

export type BucketName = (typeof buckets)[number];

/** A path parameter: the request member that it fills. */
type PathMember = { name: string; numeric: boolean };

/** One REST route: everything about it that does not depend on a request. */
export type Route = {
  rpc: DescMethod;
  upstream: Upstream;
  /** Path of the RPC at its service. */
  rpcPath: string;
  method: string;
  /** Path below the prefix, as in the proto: `/accounts/{account_id}`. */
  template: string;
  /** Path below the prefix, as in the router: `/accounts/:accountId`. */
  pattern: string;
  pathMembers: PathMember[];
  queryMembers: Map<string, DescField>;
  bodyMembers: Members;
  isPublic: boolean;
  usersOnly: boolean;
  /** The role in the path's account that the caller needs. */
  needs: RoleName | undefined;
  /** The role that a machine needs there, if it is another. */
  machineNeeds: RoleName | undefined;
  bucket: BucketName;
  success: number;
  /** Whether the REST body is a member of the response: the one that is set of a oneof, or the `response_body`. */
  unwrap: boolean;
  /** Statuses of responses that are one of these members, where they differ from the route's success. */
  successOf: Map<string, number>;
  etag: boolean;
  maxBody: number;
  /** Whether its success may take a right from somebody: then all cached callers are dropped. */
  revokes: boolean;
  /** Of a server-streaming method: how its messages become events. It may share its path with a unary one. */
  follow: Follow | undefined;
  /** What it answers as `text/csv`. */
  table: Table | undefined;
  /** The GET of the innermost resource that the path names below the account; its 404 comes before any 422. */
  named: Route | undefined;
};

type Binding = { method: string; path: string; body: string };

/** Returns the REST paths of a method: the canonical one, then those of the same operation at other bases. */
export function bindingsOf(rpc: DescMethod): Binding[] {
  const rule = getOption(rpc, http);
  return [rule, ...rule.additionalBindings].flatMap(({ pattern, body }) =>
    pattern.case ? [{ method: pattern.case.toUpperCase(), path: pattern.value, body }] : [],
  );
}

const nameOf = (rpc: DescMethod) => `${rpc.parent.typeName}/${rpc.name}`;

/** Returns the routes of all published services. Throws when annotations are missing or contradict each other. */
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

/** Returns the GET of the longest part of a route's path that ends with a parameter and that its callers may call. */
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
  const rules = rulesOf(rpc);
  const bindings = bindingsOf(rpc);
  if (rules.role === Role.SERVICE) throw new Error(`${nameOf(rpc)} is for services and cannot have a route`);
  if (bindings.length === 0) throw new Error(`${nameOf(rpc)} has no route`);
  // What one of the paths names is never a member of query or body, even where another path does not name it.
  const inPath = new Set(bindings.flatMap(({ path }) => pathMembersOf(rpc, path)).map(({ name }) => name));
  const follow = followOf(rpc);
  if (follow) inPath.add(RESUME_MEMBER);
  const members = rpc.input.fields.filter(({ jsonName }) => !inPath.has(jsonName));
  const [needs, machineNeeds] = [requiredRole(rules), requiredRole(rules, "machine")];
  checkBindings(rpc, bindings, members);
  const [unbounded] = unboundedIn(rpc.input);
  if (unbounded) throw new Error(`${nameOf(rpc)}: ${unbounded} needs max_items or max_pairs`);
  return bindings.map(({ method, path }) => ({
    rpc,
    upstream,
    rpcPath: `/${rpc.parent.typeName}/${rpc.name}`,
    method,
    template: path,
    pattern: path.replaceAll(/\{(\w+)\}/g, (_, name: string) => `:${memberOf(rpc, name).jsonName}`),
    pathMembers: pathMembersOf(rpc, path),
    queryMembers: queryMembersOf(method, members),
    bodyMembers: new Map([...membersOf(rpc.input)].filter(([name]) => !inPath.has(name))),
    isPublic: rules.role === Role.PUBLIC,
    usersOnly: rules.actor === Actor.USER,
    needs,
    machineNeeds: machineNeeds === needs ? undefined : machineNeeds,
    bucket: bucketOf(rpc, rules, method),
    success: rules.success || (rpc.output.typeName === "google.protobuf.Empty" ? 204 : 200),
    unwrap: isOneof(rpc.output) || getOption(rpc, http).responseBody !== "",
    successOf: successOf(rpc),
    etag: rules.etag,
    maxBody: maxBodyOf(rules),
    revokes: upstream === "identity" && ["DELETE", "PATCH", "PUT"].includes(method),
    follow,
    table: tableOf(rpc, rules.csv),
    named: undefined,
  }));
}

function checkBindings(rpc: DescMethod, bindings: Binding[], members: DescField[]): void {
  const [canonical] = bindings;
  for (const { method, path, body } of bindings) {
    const problem = (message: string) => new Error(`${nameOf(rpc)}: ${path} ${message}`);
    if (method !== canonical?.method) throw problem(`must take ${canonical?.method}, as its first path does`);
    if (method !== "GET" && rpc.methodKind !== "unary") throw problem("is a stream, which is read by GET");
    const wanted = method === "GET" || members.length === 0 ? "" : "*";
    if (body !== wanted) throw problem(`must have the body "${wanted}"`);
    const byAccount = pathMembersOf(rpc, path).some(({ name }) => name === "accountId");
    if (requiredRole(rulesOf(rpc)) && !byAccount) throw problem("names no account");
  }
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
      throw new Error(`${nameOf(rpc)}: ${field.name} cannot be part of a path`);
    return { name: field.jsonName, numeric: field.scalar === ScalarType.INT32 };
  });
}

// Reads take their members from the query. Writes have a body; of their members only confirmImpact may also be
// in the query (docs/conventions.md#requests).
function queryMembersOf(method: string, members: DescField[]): Map<string, DescField> {
  const inQuery = members.filter(({ jsonName }) => method === "GET" || jsonName === "confirmImpact");
  return new Map(inQuery.map((field) => [field.jsonName, field]));
}

const OWN_BUCKETS: Partial<Record<Bucket, BucketName>> = {
  [Bucket.REVEAL]: "reveals",
  [Bucket.SET_REVEAL]: "setReveals",
  [Bucket.BATCH]: "batches",
  [Bucket.DECISION]: "decisions",
  [Bucket.NEW_TOKEN]: "newTokens",
  [Bucket.LOGIN_REQUEST]: "loginRequests",
  [Bucket.SIGN_IN]: "signIns",
  [Bucket.PASSWORD_RESET]: "passwordResets",
  [Bucket.LINK]: "links",
  [Bucket.UNSUBSCRIPTION]: "unsubscriptions",
};

function bucketOf(rpc: DescMethod, { bucket, role }: MethodRules, method: string): BucketName {
  const own = OWN_BUCKETS[bucket];
  if (role === Role.PUBLIC && !own) throw new Error(`${nameOf(rpc)} is public and names no bucket`);
  return own ?? (method === "GET" ? "reads" : "writes");
}

function successOf(rpc: DescMethod): Map<string, number> {
  const own = rpc.output.fields.map((field) => [field.jsonName, getOption(field, success)] as const);
  return new Map(own.filter(([, status]) => status > 0));
}

function isOneof({ fields, oneofs }: DescMessage): boolean {
  return oneofs.length === 1 && fields.every((field) => field.oneof === oneofs[0]);
}
