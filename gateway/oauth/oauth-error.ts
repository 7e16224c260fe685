import type { FastifyRequest } from "fastify";
import { wants } from "../http/accept.ts";
import type { Problem } from "../http/problem.ts";
import { errorResponse, type GatewayResponse } from "../http/response.ts";
import { errorPage } from "../pages/kit/error-page.ts";

/** Returns an error as OAuth shapes it (RFC 6749, section 5.2, and RFC 7591, section 3.2.2). */
export function oauthError(status: number, error: string, description: string) {
  const body = Buffer.from(JSON.stringify({ error, error_description: description }));
  return { status, body, code: error } satisfies GatewayResponse;
}

const WAIT_SECONDS = 1;

/**
 * Returns a refusal of an OAuth endpoint: a page for a browser that shows it to a person, an error of OAuth for what
 * applications send, the error envelope for all others (docs/oauth.md#protocol).
 */
export function refused(request: FastifyRequest, refusal: Problem): GatewayResponse {
  if (request.method === "POST") return oauthRefusal(refusal, request.id);
  const response = errorResponse(refusal, request.id);
  const toPerson = request.method === "GET" && wants(request.headers.accept, "text/html");
  return toPerson ? { ...response, ...errorPage("This did not work", refusal.message) } : response;
}

/**
 * Returns a refusal of the gateway as OAuth shapes it. What passes by itself is `temporarily_unavailable`, with
 * Retry-After: 429, or 503 when it is not the client's fault.
 */
function oauthRefusal(refusal: Problem, requestId: string): GatewayResponse {
  const { status, message } = refusal;
  const response = errorResponse(refusal, requestId);
  if (status === 429 || status === 502 || status === 503) {
    const retryAfter = response.retryAfter ?? WAIT_SECONDS;
    const known = status === 502 ? 503 : status;
    return { ...response, retryAfter, ...oauthError(known, "temporarily_unavailable", message) };
  }
  return { ...response, ...oauthError(status, status < 500 ? "invalid_request" : "server_error", message) };
}
