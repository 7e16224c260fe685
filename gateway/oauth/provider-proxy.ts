import { hash } from "node:crypto";
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type Dispatcher, Pool } from "undici";
import type { Logger } from "../../services/kit/log.ts";
import { clientNetwork } from "../../services/kit/network/client-network.ts";
import { clientAddress } from "../http/client-address.ts";
import { type Problem, problem, unavailable, unreachable, unreadable } from "../http/problem.ts";
import type { GatewayResponse } from "../http/response.ts";
import { beginMeasured, sendResponse } from "../http/send-response.ts";
import { type RateLimiter, tooManyRequests } from "../limits/rate-limiter.ts";
import { CLIENT_LEFT, observer } from "../metrics/request-metrics.ts";
import { isPageCookie } from "../pages/kit/cookies.ts";
import type { BucketName } from "../routing/routes.ts";
import { readBounded } from "../upstream/read-bounded.ts";
import { DEVICE_AUTHORIZATION, DEVICE_GRANT, type Installation } from "./metadata.ts";
import { oauthError, refused } from "./oauth-error.ts";

const MAX_FORM = 16 * 1024;
const MAX_ANSWER = 256 * 1024;
/** From the whole request to the whole answer; includes waiting for a connection. */
const DEADLINE_MS = 10_000;
const CONNECTIONS = 32;

const TOKEN = "/oauth2/token";

const NO_DEVICES =
  "This installation lets no devices without a browser in: its provider is Ory Hydra. Use the authorization code flow, or a personal token.";

type Endpoint = { method: "GET" | "POST"; path: string; bucket?: BucketName; cors?: true };

/** What is the provider's on the origin. Pages are the only callers of the first two: no script reads them. */
const ENDPOINTS: Endpoint[] = [
  { method: "GET", path: "/oauth2/auth", bucket: "authorizations" },
  { method: "GET", path: "/oauth2/auth/:uid", bucket: "authorizations" },
  { method: "POST", path: TOKEN, bucket: "tokens", cors: true },
  { method: "POST", path: "/oauth2/revoke", bucket: "tokens", cors: true },
  { method: "POST", path: DEVICE_AUTHORIZATION, bucket: "authorizations", cors: true },
  { method: "GET", path: "/.well-known/jwks.json", cors: true },
];

// All that passes. Not Origin: a provider would decide about scripts, and here all may (http/cors.ts).
const REQUEST_HEADERS = ["accept", "authorization", "content-type", "user-agent"];
const ANSWER_HEADERS = ["location", "set-cookie", "content-security-policy"];

export type ProviderDeps = {
  /** Where the provider's public endpoints are, within the installation. */
  providerUrl: string;
  /** Known once the gateway listens. */
  installation: () => Installation;
  limiter: RateLimiter;
  tracing: boolean;
  log: Logger;
};

/**
 * Registers the endpoints of the OAuth provider. What a client says of its address, or of the host that it called,
 * does not reach the provider: it makes URLs of these.
 */
export function registerProviderProxy(
  app: FastifyInstance,
  deps: ProviderDeps,
): { close: () => Promise<void> } {
  const { limiter, installation } = deps;
  const pool = new Pool(deps.providerUrl, { connections: CONNECTIONS });
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    const form = { parseAs: "buffer", bodyLimit: MAX_FORM } as const;
    scope.addContentTypeParser("*", form, (_request, body, done) => done(null, body));
    scope.setErrorHandler((error: FastifyError, request, reply) => {
      const refusal = error.statusCode === 415 ? notAForm : unreadable(error, MAX_FORM);
      if (!refusal) throw error;
      sendResponse(request, reply, refused(request, refusal));
    });
    for (const { method, path, bucket, cors = false } of ENDPOINTS) {
      const measure = observer(method, path, deps);
      scope.route({
        method,
        url: path,
        exposeHeadRoute: false,
        config: { cors },
        onRequest: async (request, reply) => {
          const exchange = beginMeasured(request, measure);
          request.exchange = exchange;
          if (bucket) exchange.rate = await limiter.consume(bucket, clientNetwork(clientAddress(request)));
          const refusal = tooManyRequests(exchange.rate) ?? compressed(request);
          if (refusal) sendResponse(request, reply, refused(request, refusal));
        },
        handler: (request, reply) => answer(request, reply, path),
      });
    }
  });

  async function answer(request: FastifyRequest, reply: FastifyReply, path: string): Promise<void> {
    reply.hijack();
    const left = new AbortController();
    const onClose = () => left.abort();
    reply.raw.once("close", onClose);
    const response = await ask(request, path, left.signal).catch((error: unknown) =>
      refused(request, away(unreachable("identity provider", error).cause)),
    );
    reply.raw.off("close", onClose);
    const { exchange } = request;
    if (left.signal.aborted) exchange?.observer.end(exchange.observed, CLIENT_LEFT, request.id);
    else sendResponse(request, reply, response);
  }

  async function ask(request: FastifyRequest, path: string, left: AbortSignal): Promise<GatewayResponse> {
    const { method, body } = request;
    if (hasNul(request)) return refused(request, withNul);
    if (path === DEVICE_AUTHORIZATION && !installation().embedded)
      return oauthError(400, "unsupported_grant_type", NO_DEVICES);
    const failing = path === TOKEN ? failingSubject(request) : undefined;
    const refusal = failing && overFailures(request, failing);
    if (refusal) return refused(request, refusal);
    const answered = await pool.request({
      method: method as "GET" | "POST",
      path: pathOf(request, path),
      headers: headersOf(request),
      body: (body as Buffer | undefined) ?? null,
      signal: AbortSignal.any([left, AbortSignal.timeout(DEADLINE_MS)]),
    });
    const { statusCode: status } = answered;
    const bytes = await readBounded(answered.body, MAX_ANSWER);
    if (status >= 500) return refused(request, away(`identity provider: it answered ${status}`));
    if (status === 404 && installation().embedded) return refused(request, outdated());
    if (installation().embedded && isDeviceUnknown(request, status, bytes))
      return refused(request, outdated());
    if (failing && status >= 400 && !isWaiting(status, bytes))
      await limiter.consume("tokenFailures", failing);
    return toResponse(status, answered.headers, bytes, path);
  }

  /** Returns the 429 of an application whose token requests failed too often. */
  function overFailures({ exchange }: FastifyRequest, subject: string): Problem | undefined {
    const rate = limiter.usedUp("tokenFailures", subject);
    if (rate && exchange) exchange.rate = rate;
    return tooManyRequests(rate, "failed requests for tokens");
  }

  function headersOf(request: FastifyRequest): Record<string, string | string[]> {
    const { host, protocol } = new URL(installation().origin);
    const headers: Record<string, string | string[]> = {
      host,
      "x-forwarded-host": host,
      "x-forwarded-proto": protocol.slice(0, -1),
      "x-forwarded-for": clientAddress(request),
      "x-request-id": request.id,
    };
    const traceparent = request.exchange?.observed.traceparent;
    if (traceparent !== undefined) headers.traceparent = traceparent;
    for (const name of REQUEST_HEADERS) {
      const value = request.headers[name];
      if (value !== undefined) headers[name] = value;
    }
    const cookie = cookiesFor(request);
    if (cookie) headers.cookie = cookie;
    return headers;
  }

  return { close: () => pool.close() };
}

/** Whether a device is told to ask again: that is no failure. */
function isWaiting(status: number, bytes: Buffer): boolean {
  return status === 400 && /"error":"(?:authorization_pending|slow_down)"/.test(bytes.toString());
}

/** Whether a replica of identity that an upgrade has not reached yet does not know the grant of devices. */
function isDeviceUnknown({ body }: FastifyRequest, status: number, bytes: Buffer): boolean {
  if (status !== 400 || !bytes.includes('"unsupported_grant_type"')) return false;
  return new URLSearchParams(String(body ?? "")).get("grant_type") === DEVICE_GRANT;
}

/**
 * By whom failing token requests are counted: the application, of one network. Its id is public, so that by the id alone
 * a stranger could keep everybody's copies of it out.
 */
function failingSubject(request: FastifyRequest): string {
  const clientId = new URLSearchParams(String(request.body ?? "")).get("client_id") ?? "";
  return `${clientNetwork(clientAddress(request))} ${hash("sha256", clientId, "base64")}`;
}

/** Returns the path at the provider: made anew, as a request line may name another host before it. */
function pathOf({ raw, params }: FastifyRequest, path: string): string {
  const query = /\?.*$/s.exec(raw.url!)?.[0] ?? "";
  return path.replace(":uid", () => encodeURIComponent((params as { uid: string }).uid)) + query;
}

/** Returns the browser's cookies but those of Berth's pages: who holds them is signed in. */
function cookiesFor({ headers }: FastifyRequest): string | undefined {
  return headers.cookie
    ?.split("; ")
    .filter((cookie) => !isPageCookie(cookie))
    .join("; ");
}

function toResponse(
  status: number,
  headers: Dispatcher.ResponseData["headers"],
  bytes: Buffer,
  path: string,
): GatewayResponse {
  const passed = ANSWER_HEADERS.flatMap((name) => [headers[name] ?? []].flat().flatMap((one) => [name, one]));
  const isKeys = path.endsWith("/jwks.json");
  return {
    status,
    body: bytes.length > 0 ? bytes : undefined,
    type: String(headers["content-type"] ?? "text/plain; charset=utf-8"),
    // Everything else carries codes, tokens, or what leads to them.
    cache: isKeys ? String(headers["cache-control"] ?? "no-cache") : "no-store",
    challenge: [headers["www-authenticate"] ?? []].flat().join(", "),
    more: ["referrer-policy", "no-referrer", ...passed],
  };
}

const compressed = ({ headers }: FastifyRequest): Problem | undefined =>
  (headers["content-encoding"] ?? "identity") === "identity" ? undefined : notAForm;

/** Whether a NUL character is in the path, the form or the login of a request: no database takes one. */
function hasNul({ raw, headers, body }: FastifyRequest): boolean {
  const login = /^basic (.*)$/is.exec(headers.authorization ?? "")?.[1] ?? "";
  const form = Buffer.isBuffer(body) ? body.toString("latin1") : "";
  return [raw.url ?? "", form, Buffer.from(login, "base64").toString("latin1")].some((text) =>
    NUL.test(text),
  );
}

const NUL = /%00|\0/;

const withNul = problem(
  400,
  "malformed_request",
  "The request holds a NUL character, which no text may have.",
);

const notAForm = problem(415, "unsupported_media_type", "The body must be a form that is not compressed.");

/** A replica of identity that an upgrade has not reached yet does not know these paths. */
const outdated = (): Problem => ({ ...unavailable(), cause: "identity: it does not answer OAuth yet" });

const away = (cause: string | undefined): Problem =>
  problem(502, "identity_provider_unavailable", "The identity provider does not answer. Try again.", {
    cause,
  });
