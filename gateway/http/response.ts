import type { IncomingMessage, ServerResponse } from "node:http";
import type { Verdict } from "../limits/rate-limiter.ts";
import { envelope, type Problem } from "./problem.ts";

/** What a request is answered, before it is written. */
export type Answer = {
  status: number;
  body: Buffer | undefined;
  etag?: string | undefined;
  retryAfter?: number | undefined;
  /** Whether clients and proxies may keep it to ask again with If-None-Match. */
  revalidate?: boolean;
  replayed?: boolean;
  /** Ends the connection after it. */
  close?: boolean;
  allow?: string;
  /** The code of an error, for the log. */
  code?: string;
};

export function isProblem(value: object): value is Problem {
  return "code" in value && "message" in value;
}

/** The answer that tells a refusal. */
export function refusal(found: Problem, requestId: string): Answer {
  const away = found.status === 429 || found.status === 503;
  return {
    status: found.status,
    body: envelope(found, requestId),
    retryAfter: found.retryAfter ?? (away ? 1 : undefined),
    code: found.code,
  };
}

/** Writes an answer with the headers that every answer has. */
export function write(
  res: ServerResponse,
  requestId: string,
  answer: Answer,
  rate: Verdict | undefined,
): void {
  const { status, body } = answer;
  const headers: (string | number)[] = [
    "x-request-id",
    requestId,
    "cache-control",
    answer.revalidate ? "private, no-cache" : "no-store",
    "x-content-type-options",
    "nosniff",
  ];
  if (body) headers.push("content-type", "application/json; charset=utf-8", "content-length", body.length);
  else if (status !== 204 && status !== 304) headers.push("content-length", 0);
  if (rate)
    headers.push(
      "ratelimit-limit",
      rate.limit,
      "ratelimit-remaining",
      rate.remaining,
      "ratelimit-reset",
      rate.resetSeconds,
    );
  if (answer.etag !== undefined) headers.push("etag", answer.etag);
  if (answer.retryAfter !== undefined) headers.push("retry-after", answer.retryAfter);
  if (answer.replayed) headers.push("idempotent-replayed", "true");
  if (status === 401) headers.push("www-authenticate", "Bearer");
  if (answer.allow !== undefined) headers.push("allow", answer.allow);
  if (answer.close) headers.push("connection", "close");
  res.writeHead(status, headers as string[]);
  res.end(body);
}

/** How long a client may go on sending a body after its answer. */
const LINGER_MS = 30_000;

/** Lets a client that is answered early finish its sending, so that it reads why instead of a reset. */
export function linger(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return;
  const late = setTimeout(() => request.destroy(), LINGER_MS).unref();
  request.once("close", () => clearTimeout(late));
  request.resume();
}
