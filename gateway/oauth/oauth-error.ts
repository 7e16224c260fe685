import type { Problem } from "../http/problem.ts";
import { errorResponse, type GatewayResponse } from "../http/response.ts";

/** Returns an error as OAuth shapes it (RFC 6749, section 5.2, and RFC 7591, section 3.2.2). */
export function oauthError(status: number, error: string, description: string) {
  const body = Buffer.from(JSON.stringify({ error, error_description: description }));
  return { status, body, code: error } satisfies GatewayResponse;
}

const WAIT_SECONDS = 1;

/**
 * Returns a refusal of the gateway as OAuth shapes it. What passes by itself is `temporarily_unavailable`, with
 * Retry-After: 429, or 503 when it is not the client's fault.
 */
export function oauthRefusal(refusal: Problem, requestId: string): GatewayResponse {
  const { status, message } = refusal;
  const response = errorResponse(refusal, requestId);
  if (status === 429 || status === 502 || status === 503) {
    const retryAfter = response.retryAfter ?? WAIT_SECONDS;
    const known = status === 502 ? 503 : status;
    return { ...response, retryAfter, ...oauthError(known, "temporarily_unavailable", message) };
  }
  return { ...response, ...oauthError(status, status < 500 ? "invalid_request" : "server_error", message) };
}
