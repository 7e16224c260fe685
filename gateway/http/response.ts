import type { IncomingMessage, ServerResponse } from "node:http";
import { errorEnvelope, type Problem, type TokenError } from "./problem.ts";

const JSON_TYPE = "application/json; charset=utf-8";

/** A response before it is written. */
export type GatewayResponse = {
  status: number;
  body: Buffer | undefined;
  etag?: string | undefined;
  /** Seconds. */
  retryAfter?: number | undefined;
  /** Whether clients may store it and revalidate it with If-None-Match. */
  revalidate?: boolean;
  replayed?: boolean;
  /** Whether the connection is closed after it. */
  close?: boolean;
  allow?: string;
  /** The content type of the body; JSON unless given. */
  type?: string;
  /** Cache-Control, where it is neither `no-store` nor that of `revalidate`. */
  cache?: string;
  /** Further headers: names and values in turn. */
  more?: string[];
  /** What is wrong with the bearer token. */
  tokenError?: TokenError | undefined;
  /** What WWW-Authenticate says, if it is not about a bearer token; "" for nothing. */
  challenge?: string;
  /** The code of an error, and what failed if that is known: for the log. */
  code?: string;
  cause?: string | undefined;
};

/** Returns the response that carries a refusal in the error envelope. */
export function errorResponse(refusal: Problem, requestId: string): GatewayResponse {
  const temporary = refusal.status === 429 || refusal.status === 503;
  return {
    status: refusal.status,
    body: errorEnvelope(refusal, requestId),
    retryAfter: refusal.retryAfter ?? (temporary ? 1 : undefined),
    code: refusal.code,
    cause: refusal.cause,
    tokenError: refusal.tokenError,
  };
}

/** The limit of a subject after one request. */
export type RateLimitState = {
  allowed: boolean;
  limit: number;
  per: "minute" | "day";
  remaining: number;
  resetSeconds: number;
};

/** Writes a response with the headers that every response has. */
export function writeResponse(
  res: ServerResponse,
  requestId: string,
  response: GatewayResponse,
  rate: RateLimitState | undefined,
): void {
  const { status, body, cache = response.revalidate ? "private, no-cache" : "no-store" } = response;
  const headers: (string | number)[] = [
    "x-request-id",
    requestId,
    "cache-control",
    cache,
    "x-content-type-options",
    "nosniff",
  ];
  if (body) headers.push("content-type", response.type ?? JSON_TYPE, "content-length", body.length);
  else if (status !== 204 && status !== 304) headers.push("content-length", 0);
  if (rate) headers.push(...Object.entries(rateLimitHeaders(rate)).flat());
  if (response.etag !== undefined) headers.push("etag", response.etag);
  if (response.retryAfter !== undefined) headers.push("retry-after", response.retryAfter);
  if (response.replayed) headers.push("idempotent-replayed", "true");
  const challenge = response.challenge ?? (status === 401 ? "Bearer" : "");
  if (challenge !== "") headers.push("www-authenticate", challenge);
  if (response.allow !== undefined) headers.push("allow", response.allow);
  if (response.close) headers.push("connection", "close");
  if (response.more) headers.push(...response.more);
  res.writeHead(status, headers as string[]);
  res.end(body);
}

/** Returns the headers that say how much of a rate limit is left. */
export function rateLimitHeaders({ limit, remaining, resetSeconds }: RateLimitState) {
  return { "ratelimit-limit": limit, "ratelimit-remaining": remaining, "ratelimit-reset": resetSeconds };
}

/** How long a client may keep sending a body after its response. */
const DRAIN_MS = 30_000;
/** How much of it is read: the largest body of any route. Nothing is read of what a client sends beyond that. */
const DRAIN_BYTES = 4 * 1024 * 1024;

/** Lets a client that is answered early finish sending, so that it reads the response instead of a reset. */
export function drainBody(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return;
  const late = setTimeout(() => request.destroy(), DRAIN_MS).unref();
  request.once("close", () => clearTimeout(late));
  let left = DRAIN_BYTES;
  request.on("data", (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) request.pause();
  });
  request.resume();
}
