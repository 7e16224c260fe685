import { IDEMPOTENCY_HEADER, REPLAYED_HEADER } from "../../services/kit/idempotency/idempotency.ts";
import { fromConnectError, internal, unreachable } from "../http/problem.ts";
import { errorResponse, type GatewayResponse } from "../http/response.ts";
import type { Route } from "../routing/routes.ts";
import type { Upstream } from "../upstreams.ts";
import { DEADLINE_MS, type UnaryClient, type UpstreamResponse } from "./unary.ts";

/** What is sent along with a request message. */
export type Outbound = {
  requestId: string;
  /** The signed caller. */
  caller: string;
  traceparent: string | undefined;
  ifMatch?: string | undefined;
  ifNoneMatch?: string | undefined;
  /** The header that carries the caller's Idempotency-Key. */
  idempotency?: string;
};

/**
 * Returns a function that calls the RPC of a route and resolves to the route's response; it never rejects. The
 * body's bytes are passed on undecoded.
 */
export function createForward(clients: Record<Upstream, UnaryClient>) {
  return async (route: Route, message: Buffer | string, out: Outbound): Promise<GatewayResponse> => {
    let answered: UpstreamResponse;
    try {
      const safe = route.method === "GET";
      answered = await clients[route.upstream].call(route.rpcPath, headersOf(out), message, safe);
    } catch (error) {
      return errorResponse(unreachable(route.upstream, error), out.requestId);
    }
    if (answered.status !== 200)
      return errorResponse(fromConnectError(answered.body, out.requestId), out.requestId);
    const response = successResponse(route, answered, out.requestId);
    return answered.headers[REPLAYED_HEADER] === "1" ? { ...response, replayed: true } : response;
  };
}

function headersOf(out: Outbound): string[] {
  const headers = ["content-type", "application/json", "connect-timeout-ms", String(DEADLINE_MS)];
  headers.push(...commonHeadersOf(out));
  if (out.idempotency !== undefined) headers.push(IDEMPOTENCY_HEADER, out.idempotency);
  if (out.ifMatch !== undefined) headers.push("if-match", out.ifMatch);
  if (out.ifNoneMatch !== undefined) headers.push("if-none-match", out.ifNoneMatch);
  return headers;
}

/** Returns the headers of a streaming call, which has no deadline. */
export function streamHeadersOf(out: Outbound): string[] {
  return ["content-type", "application/connect+json", ...commonHeadersOf(out)];
}

function commonHeadersOf(out: Outbound): string[] {
  const headers = [
    "connect-protocol-version",
    "1",
    "berth-caller",
    out.caller,
    "x-request-id",
    out.requestId,
  ];
  if (out.traceparent !== undefined) headers.push("traceparent", out.traceparent);
  return headers;
}

function successResponse(
  route: Route,
  { headers, body }: UpstreamResponse,
  requestId: string,
): GatewayResponse {
  const etag = route.etag ? (headers.etag as string | undefined) : undefined;
  const revalidate = route.etag && route.method === "GET";
  if (headers["berth-not-modified"] === "1") return { status: 304, body: undefined, etag, revalidate };
  if (route.success === 204) return { status: 204, body: undefined, etag };
  if (!route.unwrap) return { status: route.success, body, etag, revalidate };
  const cut = unwrap(body);
  if (!cut) return errorResponse(internal(requestId), requestId);
  const own = route.successOf.size > 0 ? route.successOf.get(soleMember(body)) : undefined;
  return { status: own ?? route.success, body: cut, etag, revalidate };
}

const SOLE = /^\{"[A-Za-z0-9_]+":/;

/** Returns the name of the single member of a JSON object, read from its bytes. */
function soleMember(body: Buffer): string {
  return SOLE.exec(body.toString("latin1", 0, 80))?.[0].slice(2, -2) ?? "";
}

/** Returns the value of the single member of a JSON object, cut out of its bytes; undefined for an empty object. */
export function unwrap(body: Buffer): Buffer | undefined {
  const start = SOLE.exec(body.toString("latin1", 0, 80));
  if (start && body.at(-1) === 0x7d) return body.subarray(start[0].length, -1);
  const [value] = Object.values(JSON.parse(body.toString()) as object);
  return value === undefined ? undefined : Buffer.from(JSON.stringify(value));
}
