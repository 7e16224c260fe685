import type { FastifyReply, FastifyRequest } from "fastify";
import { problem } from "../http/problem.ts";
import { errorResponse } from "../http/response.ts";
import { sendResponse } from "../routing/exchange.ts";

/** Far longer than a small body takes from anywhere. */
const BODY_MS = 15_000;

/** Answers 408 when the body has not arrived in time, and closes the connection. */
export function limitBodyTime(request: FastifyRequest, reply: FastifyReply): void {
  const { raw } = request;
  if (raw.complete) return;
  const late = setTimeout(() => {
    const refusal = problem(408, "malformed_request", "The request took too long to arrive.");
    sendResponse(request, reply, { ...errorResponse(refusal, request.id), close: true });
  }, BODY_MS).unref();
  for (const event of ["end", "close"]) raw.once(event, () => clearTimeout(late));
}
