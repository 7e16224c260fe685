import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "../../services/kit/log.ts";
import { clientNetwork } from "../../services/kit/network/client-network.ts";
import { signCaller } from "../../services/kit/rpc/caller-token.ts";
import type { Auth } from "../auth/authorize.ts";
import type { CachedCaller, CallerCache } from "../auth/caller-cache.ts";
import { beginExchange, type Exchange } from "../auth/exchange.ts";
import { clientAddress } from "../http/client-address.ts";
import { isProblem, type Problem } from "../http/problem.ts";
import { errorResponse, type GatewayResponse } from "../http/response.ts";
import { sendResponse } from "../http/send-response.ts";
import type { Idempotency } from "../limits/idempotency.ts";
import { type RateLimiter, tooManyRequests } from "../limits/rate-limiter.ts";
import { observer } from "../metrics/request-metrics.ts";
import { RESUME_MEMBER } from "../routing/follow.ts";
import type { Route } from "../routing/routes.ts";
import type { Streams } from "../streams/sse-bridge.ts";
import { wantsEvents } from "../streams/sse-format.ts";
import type { createForward, Outbound } from "../upstream/forward.ts";
import { requestMessage } from "./request-message.ts";

type RequestDeps = {
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
        const route = events && wantsEvents(request.headers.accept) ? events : first;
        const exchange = beginExchange(request, route, measure);
        request.exchange = exchange;
        const refusal = await admit(request, exchange, deps);
        if (refusal) sendResponse(request, reply, errorResponse(refusal, request.id));
      },
      handler: async (request, reply) => {
        const response = await respond(request, reply, request.exchange as Exchange, deps);
        if (response) sendResponse(request, reply, response);
      },
    });
  }
}

/**
 * Makes the checks that come before the body is read, in the order of docs/conventions.md#order-of-checks: 401,
 * then 429, then 403, then the 429 of the account. Returns the refusal, or undefined once the exchange has its caller.
 */
async function admit(
  request: FastifyRequest,
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
  const credentials = await deps.auth.identify(request.headers.authorization);
  if (isProblem(credentials)) return credentials;
  exchange.credentials = credentials;
  const refusal = await limit(exchange, credentials.caller.userId, deps);
  if (refusal) return refusal;
  const accountId = route.needs && (request.params as Params).accountId;
  const caller = await deps.auth.authorize(route, credentials, accountId, exchange.arrivedAt);
  if (isProblem(caller)) return caller;
  // Only now: strangers must not use up what an account may do.
  const ofAccount = accountId && (await limitAccount(exchange, accountId, deps));
  if (ofAccount) return ofAccount;
  exchange.callerHeader = deps.callers.signedHeader(caller, accountId, ip);
  return undefined;
}

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

/** Returns the response to an admitted request; undefined when a stream was the response. */
async function respond(
  request: FastifyRequest,
  reply: FastifyReply,
  exchange: Exchange,
  deps: RequestDeps,
): Promise<GatewayResponse | undefined> {
  const response = await callRoute(request, reply, exchange, deps);
  // It ended since the gateway asked about it.
  if (response?.status === 401 && exchange.credentials) response.tokenError = "invalid_token";
  if (response?.status !== 400 && response?.status !== 422) return response;
  return (await missingResource(request, exchange, deps)) ?? response;
}

/** Returns the 404 of what the path names: it comes before what is wrong with query and body. */
async function missingResource(
  request: FastifyRequest,
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
  request: FastifyRequest,
  reply: FastifyReply,
  exchange: Exchange,
  deps: RequestDeps,
): Promise<GatewayResponse | undefined> {
  const { route } = exchange;
  const { headers } = request;
  const body = request.body as Buffer | undefined;
  const message = requestMessage(route, request.params as Params, queryOf(request), body);
  if (isRefused(message)) return errorResponse(message, request.id);
  const out = {
    ...outbound(request, exchange),
    ifMatch: headers["if-match"],
    ifNoneMatch: headers["if-none-match"],
  };
  if (route.follow) {
    const lastEventId = route.follow.resumes ? headers["last-event-id"] : undefined;
    const resumed = lastEventId ? withMember(message, RESUME_MEMBER, String(lastEventId)) : message;
    return deps.streams.open(request, reply, exchange, resumed, out);
  }
  if (headers["idempotency-key"] !== undefined && exchange.credentials && route.method === "POST")
    return callOnce(request, exchange, deps, message, out);
  const response = await deps.forward(route, message, out);
  if (route.revokes && response.status < 300) deps.callers.invalidateAll();
  return response;
}

/** Calls a POST's RPC under its Idempotency-Key. */
async function callOnce(
  request: FastifyRequest,
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
    url: request.raw.url!,
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

function outbound(request: FastifyRequest, { callerHeader, observed }: Exchange): Outbound {
  return { requestId: request.id, caller: callerHeader, traceparent: observed.traceparent };
}

function queryOf(request: FastifyRequest): string {
  const url = request.raw.url!;
  const at = url.indexOf("?");
  return at < 0 ? "" : url.slice(at + 1);
}

/** Returns a request message with one more member. */
function withMember(message: Buffer | string, name: string, value: string): string {
  return JSON.stringify({ ...(JSON.parse(message.toString()) as object), [name]: value });
}
