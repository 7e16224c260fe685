import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "../../services/kit/log.ts";
import { signCaller } from "../../services/kit/rpc/caller-token.ts";
import type { Auth, Identified } from "../auth/authorize.ts";
import type { Callers, Known } from "../auth/caller-cache.ts";
import { internal, type Problem, problem } from "../http/problem.ts";
import { type Observed, type Observer, observer } from "../http/request-metrics.ts";
import { type Answer, isProblem, linger, refusal, write } from "../http/response.ts";
import type { Idempotency } from "../limits/idempotency.ts";
import type { RateLimiter, Verdict } from "../limits/rate-limiter.ts";
import type { Streams } from "../streams/sse-bridge.ts";
import { RESUME_MEMBER, wantsEvents } from "../streams/sse-format.ts";
import type { createForward, Outbound } from "../upstream/forward.ts";
import { requestMessage } from "./request-message.ts";
import type { Route } from "./routes.ts";

export type TranscodeDeps = {
  auth: Auth;
  callers: Callers;
  limiter: RateLimiter;
  idempotency: Idempotency;
  forward: ReturnType<typeof createForward>;
  streams: Streams;
  keys: Buffer[];
  tracing: boolean;
  log: Logger;
};

/** One request on its way through its route. */
export type Exchange = {
  route: Route;
  observer: Observer;
  observed: Observed;
  arrivedAt: number;
  /** The caller of a route that needs one, once the token is known. */
  by: Identified | undefined;
  /** The signed caller, once the request is allowed. */
  header: string;
  rate: Verdict | undefined;
};

declare module "fastify" {
  interface FastifyInstance {
    /** Whether the gateway is being stopped: connections end with their next answer. */
    stopping: boolean;
  }
  interface FastifyRequest {
    exchange: Exchange | undefined;
  }
}

type Params = Record<string, string>;

/** Registers every route: the checks that come before the body is read, and the call of its RPC. */
export function transcode(app: FastifyInstance, prefix: string, routes: Route[], deps: TranscodeDeps): void {
  const keyOf = (route: Route) => `${route.method} ${route.template}`;
  const unary = new Set(routes.filter((route) => !route.follow).map(keyOf));
  const followed = new Map(routes.filter((route) => route.follow).map((route) => [keyOf(route), route]));
  for (const first of routes) {
    if (first.follow && unary.has(keyOf(first))) continue;
    const events = followed.get(keyOf(first));
    const watch = observer(first.method, first.template, deps);
    app.route({
      method: first.method,
      url: prefix + first.pattern,
      bodyLimit: first.maxBody,
      onRequest: (request, reply, done) => {
        const route = events && wantsEvents(request.headers.accept) ? events : first;
        request.exchange = {
          route,
          observer: watch,
          observed: watch.begin(request.headers.traceparent as string | undefined),
          arrivedAt: Date.now(),
          by: undefined,
          header: "",
          rate: undefined,
        };
        admit(request, reply, request.exchange, deps, done);
      },
      handler: (request, reply) => {
        answer(request, reply, request.exchange!, deps).then(
          (made) => made && finish(request, reply, made),
          (error: unknown) => {
            deps.log.error({ err: error, requestId: request.id }, "request failed");
            finish(request, reply, refusal(internal(request.id), request.id));
          },
        );
      },
    });
  }
}

/** Ends a request: writes its answer and records it. */
export function finish(request: FastifyRequest, reply: FastifyReply, answer: Answer): void {
  const { exchange } = request;
  reply.hijack();
  if (request.server.stopping) answer.close = true;
  if (!reply.raw.headersSent) write(reply.raw, request.id, answer, exchange?.rate);
  if (request.body === undefined && hasBody(request)) linger(request.raw);
  exchange?.observer.end(exchange.observed, answer, request.id);
}

function hasBody({ headers }: FastifyRequest): boolean {
  return headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
}

/** Whether a value is there already, or has to be waited for: what is there is used in the same turn. */
function after<T>(value: T | Promise<T>, next: (value: T) => void, failed: (error: unknown) => void): void {
  if (value instanceof Promise) value.then(next).catch(failed);
  else next(value);
}

// The order of docs/conventions.md#order-of-checks: 401, then 429, then 403.
function admit(
  request: FastifyRequest,
  reply: FastifyReply,
  exchange: Exchange,
  deps: TranscodeDeps,
  done: (error?: Error) => void,
): void {
  const { route } = exchange;
  const fail = (error: unknown) => done(error as Error);
  const refuse = (found: Problem) => finish(request, reply, refusal(found, request.id));
  const ip = addressOf(request);

  const limit = (who: string, next: () => void) =>
    after(
      deps.limiter.take(route.bucket, who),
      (rate) => {
        exchange.rate = rate;
        if (!rate || rate.allowed) next();
        else refuse(tooMany(rate));
      },
      fail,
    );

  if (route.isPublic) {
    const pass = () => {
      exchange.header = signCaller(deps.keys, { kind: "anonymous", id: "", ip });
      done();
    };
    limit(networkOf(ip), pass);
    return;
  }

  const accountId = route.needs && (request.params as Params).accountId;
  const identified = (by: Identified | Problem) => {
    if (isProblem(by)) return refuse(by);
    exchange.by = by;
    limit(by.known.tokenId, () =>
      after(deps.auth.authorize(route, by, accountId, exchange.arrivedAt), allowed, fail),
    );
  };
  const allowed = (known: Known | Problem) => {
    if (isProblem(known)) return refuse(known);
    exchange.header = deps.callers.header(known, accountId, ip);
    done();
  };
  after(deps.auth.identify(request.headers.authorization), identified, fail);
}

/** The answer of a request; none where a stream was the answer. */
async function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  exchange: Exchange,
  deps: TranscodeDeps,
): Promise<Answer | undefined> {
  const made = await attempt(request, reply, exchange, deps);
  const refused = made?.status === 400 || made?.status === 422;
  return (refused ? await missing(request, exchange, deps) : undefined) ?? made;
}

/** The 404 of what the path names. It comes before what is wrong with query and body, and costs only those. */
async function missing(
  request: FastifyRequest,
  exchange: Exchange,
  deps: TranscodeDeps,
): Promise<Answer | undefined> {
  const { named } = exchange.route;
  if (!named) return undefined;
  const message = requestMessage(named, request.params as Params, "", undefined);
  if (typeof message === "object" && isProblem(message)) return refusal(message, request.id);
  const found = await deps.forward(named, message, outbound(request, exchange));
  return found.status === 404 ? found : undefined;
}

async function attempt(
  request: FastifyRequest,
  reply: FastifyReply,
  exchange: Exchange,
  deps: TranscodeDeps,
): Promise<Answer | undefined> {
  const { route, by } = exchange;
  const { headers } = request;
  const url = request.raw.url!;
  const at = url.indexOf("?");
  const query = at < 0 ? "" : url.slice(at + 1);
  const body = request.body as Buffer | undefined;
  const message = requestMessage(route, request.params as Params, query, body);
  if (typeof message === "object" && isProblem(message)) return refusal(message, request.id);
  const out = {
    ...outbound(request, exchange),
    ifMatch: headers["if-match"],
    ifNoneMatch: headers["if-none-match"],
  };
  if (route.follow) {
    const after = route.follow.resumes ? headers["last-event-id"] : undefined;
    const asked = after ? withMember(message, RESUME_MEMBER, String(after)) : message;
    return deps.streams.answer(request, reply, exchange, asked, out);
  }
  const key = headers["idempotency-key"];
  if (key === undefined || !by || route.method !== "POST") {
    const made = await deps.forward(route, message, out);
    if (route.revokes && made.status < 300) deps.callers.forgetAll();
    return made;
  }
  const keyed = { by, key: String(key), method: "POST", url, body: body ?? Buffer.alloc(0) };
  const made = await deps.idempotency.run(keyed, (idempotency) =>
    deps.forward(route, message, { ...out, idempotency }),
  );
  return isProblem(made) ? refusal(made, request.id) : made;
}

function outbound(request: FastifyRequest, exchange: Exchange): Outbound {
  const { header: caller, observed } = exchange;
  return { requestId: request.id, caller, traceparent: observed.traceparent };
}

/** A request message that was made of path and query, with one more member. */
function withMember(message: Buffer | string, name: string, value: string): string {
  return JSON.stringify({ ...(JSON.parse(message.toString()) as object), [name]: value });
}

function tooMany(rate: Verdict): Problem {
  const message = `Too many requests: ${rate.limit} a minute are allowed. Try again in ${rate.resetSeconds} s.`;
  return problem(429, "rate_limited", message, { retryAfter: rate.resetSeconds });
}

/** The client's address; an IPv4 address inside IPv6 is given as IPv4. */
function addressOf(request: FastifyRequest): string {
  const ip = request.ip ?? "";
  return ip.startsWith("::ffff:") ? ip.slice(7) : ip;
}

/** What one client is for a limit per address: an IPv4 address, or the /64 of an IPv6 one. */
export function networkOf(ip: string): string {
  if (!ip.includes(":")) return ip;
  const [head = "", tail] = ip.split("::");
  const groups = head === "" ? [] : head.split(":");
  const rest = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : 8 - groups.length - rest.length;
  return `${[...groups, ...Array(Math.max(0, zeros)).fill("0"), ...rest].slice(0, 4).join(":")}::/64`;
}
