import type { IncomingHttpHeaders } from "node:http";
import type { FastifyInstance } from "fastify";
import type { Logger } from "../../services/kit/log.ts";
import { clientNetwork } from "../../services/kit/network/client-network.ts";
import { signCaller } from "../../services/kit/rpc/caller-token.ts";
import { type Auth, FOR_TOOLS } from "../auth/authorize.ts";
import type { CachedCaller, CallerCache } from "../auth/caller-cache.ts";
import { beginExchange, type Exchange } from "../auth/exchange.ts";
import { wants } from "../http/accept.ts";
import { clientAddress } from "../http/client-address.ts";
import { isProblem, type Problem, problem } from "../http/problem.ts";
import { errorResponse, type GatewayResponse } from "../http/response.ts";
import { sendResponse } from "../http/send-response.ts";
import type { Idempotency } from "../limits/idempotency.ts";
import { type RateLimiter, tooManyRequests } from "../limits/rate-limiter.ts";
import { observer } from "../metrics/request-metrics.ts";
import { RESUME_MEMBER } from "../routing/follow.ts";
import { misnamedIn } from "../routing/path-ids.ts";
import type { Route } from "../routing/routes.ts";
import type { Streams } from "../streams/open-streams.ts";
import { CSV, toCsv } from "../upstream/csv.ts";
import type { createForward, Outbound } from "../upstream/forward.ts";
import { requestMessage } from "./request-message.ts";

export type RequestDeps = {
  auth: Auth;
  callers: CallerCache;
  limiter: RateLimiter;
  /** How many users' limits the members of an account have together; 0 for any number. */
  accountTimes: number;
  idempotency: Idempotency;
  forward: ReturnType<typeof createForward>;
  streams: Streams;
  keys: Buffer[];
  tracing: boolean;
  log: Logger;
};

type Params = Record<string, string>;

/** A request of the API: one that has arrived, or that a tool of MCP makes in this process. */
export type ApiRequest = {
  id: string;
  method: string;
  /** Path and query. */
  url: string;
  params: unknown;
  headers: IncomingHttpHeaders;
  /** Its bytes, once they are read. */
  body: unknown;
  ip: string;
  /** The tool that makes it. */
  tool?: string;
};

/** Registers every route with the app; a unary and a streaming one of the same path are registered as one. */
export function registerRoutes(
  app: FastifyInstance,
  prefix: string,
  routes: Route[],
  deps: RequestDeps,
): void {
  const keyOf = (route: Route) => `${route.method} ${route.template}`;
  const unary = new Set(routes.filter((route) => !route.follow).map(keyOf));
  const streams = new Map(routes.filter((route) => route.follow).map((route) => [keyOf(route), route]));
  for (const first of routes) {
    if (first.follow && unary.has(keyOf(first))) continue;
    const events = streams.get(keyOf(first));
    const measure = observer(first.method, first.template, deps);
    app.route({
      method: first.method,
      url: prefix + first.pattern,
      bodyLimit: first.maxBody,
      // A script that was given a token may use it; what needs none is for Berth's own pages.
      config: { cors: !first.isPublic },
      onRequest: async (request, reply) => {
        // The router takes a slash at the end for an empty id.
        if (Object.values(request.params as Params).includes("")) return reply.callNotFound();
        const route = events && wants(request.headers.accept, "text/event-stream") ? events : first;
        const exchange = beginExchange(request, route, measure);
        request.exchange = exchange;
        const refusal = await admit(request, exchange, deps);
        if (refusal) sendResponse(request, reply, errorResponse(refusal, request.id));
      },
      handler: async (request, reply) => {
        const open = (exchange: Exchange, message: Buffer | string, out: Outbound) =>
          deps.streams.open(request, reply, exchange, message, out);
        const response = await respond(request, request.exchange as Exchange, deps, open);
        if (response) sendResponse(request, reply, response);
      },
    });
  }
}

/**
 * Makes the checks that come before the body is read, in the order of docs/conventions.md#order-of-checks: 401,
 * then 429, then 403, then the 429 of the account. Returns the refusal, or undefined once the exchange has its caller.
 */
export async function admit(
  request: ApiRequest,
  exchange: Exchange,
  deps: RequestDeps,
): Promise<Problem | undefined> {
  const { route } = exchange;
  const ip = clientAddress(request);
  if (route.isPublic) {
    const refusal = await limit(exchange, clientNetwork(ip), deps);
    if (!refusal) exchange.callerHeader = signCaller(deps.keys, { kind: "anonymous", id: "", ip });
    return refusal;
  }
  const credentials = await deps.auth.identifyRequest(request.headers);
  if (isProblem(credentials))
    return lacksToken(request) ? { ...credentials, message: TO_BROWSERS } : credentials;
  if (credentials.caller.toolsOnly && request.tool === undefined) return FOR_TOOLS;
  exchange.credentials = credentials;
  const refusal = await limit(exchange, credentials.caller.userId, deps);
  if (refusal) return refusal;
  const accountId = route.needs && (request.params as Params).accountId;
  const caller = await deps.auth.authorize(route, credentials, accountId, exchange.arrivedAt);
  if (isProblem(caller)) return caller;
  // Only now: strangers must not use up what an account may do.
  const ofAccount = accountId && (await limitAccount(exchange, accountId, deps));
  if (ofAccount) return ofAccount;
  exchange.callerHeader = deps.callers.signedHeader(caller, accountId, ip, request.tool);
  return undefined;
}

const TO_BROWSERS =
  "This is Berth's API, for programs, which send a token in the header Authorization. It is described at /docs. Your own pages begin at /profile.";

/** Whether somebody opened a path of the API in a browser. */
const lacksToken = (request: ApiRequest) =>
  request.headers.authorization === undefined &&
  request.method === "GET" &&
  wants(request.headers.accept, "text/html");

async function limit(exchange: Exchange, subject: string, deps: RequestDeps): Promise<Problem | undefined> {
  exchange.rate = await deps.limiter.consume(exchange.route.bucket, subject);
  return tooManyRequests(exchange.rate);
}

/** As `limit`, for all members of an account together. The response tells of the limit of which less is left. */
async function limitAccount(
  exchange: Exchange,
  accountId: string,
  { limiter, accountTimes }: RequestDeps,
): Promise<Problem | undefined> {
  const rate = await limiter.consume(exchange.route.bucket, accountId, accountTimes);
  if (rate && rate.remaining < (exchange.rate?.remaining ?? Number.POSITIVE_INFINITY)) exchange.rate = rate;
  return tooManyRequests(rate, "requests in this account");
}

/** Answers with a stream; resolves to a response where it cannot be opened. */
type OpenStream = (
  exchange: Exchange,
  message: Buffer | string,
  out: Outbound,
) => Promise<GatewayResponse | undefined>;

/** Returns the response to an admitted request; undefined when a stream was the response. */
export async function respond(
  request: ApiRequest,
  exchange: Exchange,
  deps: RequestDeps,
  open?: OpenStream,
): Promise<GatewayResponse | undefined> {
  const response = await callRoute(request, exchange, deps, open);
  // It ended since the gateway asked about it.
  if (response?.status === 401 && exchange.credentials) response.tokenError = "invalid_token";
  if (response?.status !== 400 && response?.status !== 422) return response;
  return (await missingResource(request, exchange, deps)) ?? response;
}

/** Returns the 404 of what the path names: it comes before what is wrong with query and body. */
async function missingResource(
  request: ApiRequest,
  exchange: Exchange,
  deps: RequestDeps,
): Promise<GatewayResponse | undefined> {
  const { named } = exchange.route;
  if (!named) return undefined;
  const message = requestMessage(named, request.params as Params, "", undefined);
  if (isRefused(message)) return errorResponse(message, request.id);
  const found = await deps.forward(named, message, outbound(request, exchange));
  return found.status === 404 ? found : undefined;
}

async function callRoute(
  request: ApiRequest,
  exchange: Exchange,
  deps: RequestDeps,
  open: OpenStream | undefined,
): Promise<GatewayResponse | undefined> {
  const { route } = exchange;
  const { headers } = request;
  const body = request.body as Buffer | undefined;
  const misnamed = misnamedIn(request.params as Params);
  if (misnamed) return errorResponse(problem(404, "not_found", misnamed), request.id);
  const message = requestMessage(route, request.params as Params, queryOf(request), body);
  if (isRefused(message)) return errorResponse(message, request.id);
  const out = {
    ...outbound(request, exchange),
    ifMatch: headers["if-match"],
    ifNoneMatch: headers["if-none-match"],
  };
  if (route.follow && open) {
    const lastEventId = route.follow.resumes ? headers["last-event-id"] : undefined;
    const resumed = lastEventId ? withMember(message, RESUME_MEMBER, String(lastEventId)) : message;
    return open(exchange, resumed, out);
  }
  if (headers["idempotency-key"] !== undefined && exchange.credentials && route.method === "POST")
    return callOnce(request, exchange, deps, message, out);
  const response = await deps.forward(route, message, out);
  if (route.revokes && response.status < 300) deps.callers.invalidateAll();
  const { table } = route;
  if (table && response.status === 200 && response.body && wants(headers.accept, CSV))
    return { ...response, body: toCsv(table, response.body), type: `${CSV}; charset=utf-8; header=present` };
  return response;
}

/** Calls a POST's RPC under its Idempotency-Key. */
async function callOnce(
  request: ApiRequest,
  { route, credentials }: Exchange,
  deps: RequestDeps,
  message: Buffer | string,
  out: Outbound,
): Promise<GatewayResponse> {
  const { caller, token } = credentials!;
  const keyed = {
    owner: `${caller.userId}\n${caller.boundTo ?? ""}`,
    ...secretsOf(caller, token),
    key: String(request.headers["idempotency-key"]),
    method: "POST",
    url: request.url,
    body: (request.body as Buffer | undefined) ?? Buffer.alloc(0),
  };
  const result = await deps.idempotency.run(keyed, (idempotency) =>
    deps.forward(route, message, { ...out, idempotency }),
  );
  return isProblem(result) ? errorResponse(result, request.id) : result;
}

/**
 * What a caller's stored answers are sealed with. Tokens of a user share them if they reach equally far: a limited one
 * must not read what another was answered. A machine has those of its grant, whichever access token it sends.
 */
function secretsOf({ kind, userId, tokenId, boundTo, roleCap }: CachedCaller, token: string) {
  if (kind === "machine") return { secret: `grant ${tokenId}` };
  // Until 24 hours after an upgrade there are keys that were taken by the token alone.
  return { secret: `user ${userId} ${boundTo ?? "-"} ${roleCap ?? "-"}`, formerSecret: token };
}

function isRefused(message: Buffer | string | Problem): message is Problem {
  return typeof message === "object" && isProblem(message);
}

function outbound(request: ApiRequest, { callerHeader, observed }: Exchange): Outbound {
  return { requestId: request.id, caller: callerHeader, traceparent: observed.traceparent };
}

function queryOf({ url }: ApiRequest): string {
  const at = url.indexOf("?");
  return at < 0 ? "" : url.slice(at + 1);
}

/** Returns a request message with one more member. */
function withMember(message: Buffer | string, name: string, value: string): string {
  return JSON.stringify({ ...(JSON.parse(message.toString()) as object), [name]: value });
}
