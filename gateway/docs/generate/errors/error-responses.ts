import type { Route } from "../../../routing/routes.ts";
import type { Schema } from "../schemas.ts";
import { type Refusal, refusalsOf } from "./refusals.ts";

const NOT_MODIFIED: Schema = {
  description: "The ETag in If-None-Match is still current. The response has no body.",
};

// Responses that mean the same in every route: each is one component.
const COMMON: [name: string, status: number, code: string, sentence: string][] = [
  [
    "MalformedRequest",
    400,
    "malformed_request",
    "The path, the headers or the body cannot be read, or the cursor is not from this list.",
  ],
  ["Unauthenticated", 401, "unauthenticated", "The bearer token is missing or not valid."],
  ["Forbidden", 403, "forbidden", "The caller's role is too low, or the caller is not a member."],
  ["NotFound", 404, "not_found", "There is nothing here, or nothing that the caller may know of."],
  ["RequestTimeout", 408, "request_timeout", "The request took too long to arrive."],
  ["PayloadTooLarge", 413, "payload_too_large", "The body is larger than the endpoint accepts."],
  [
    "UnsupportedMediaType",
    415,
    "unsupported_media_type",
    "The body is not application/json, or it is compressed.",
  ],
  ["ExpectationFailed", 417, "malformed_request", "The Expect header is not 100-continue."],
  ["RateLimited", 429, "rate_limited", "Too many requests in the current minute."],
  ["HeadersTooLarge", 431, "malformed_request", "The headers are too large."],
  ["Internal", 500, "internal", "Something went wrong on our side."],
  ["Unavailable", 503, "unavailable", "A part of Berth is unavailable. Try again."],
];

/** Returns the components of the common responses. */
export function commonResponses(): Record<string, Schema> {
  return Object.fromEntries(
    COMMON.map(([name, status, code, sentence]) => {
      const { description, ...rest } = errorResponse(status, [{ status, code, reasons: [] }]);
      return [name, { description: `${description}: ${sentence}`, ...rest }];
    }),
  );
}

/** Returns the error responses of a route: one per status, with its codes and reasons. */
export function errorResponses(route: Route): Schema {
  const byStatus = Map.groupBy(refusalsOf(route), ({ status }) => status);
  const statuses = [...byStatus.keys()].sort((a, b) => a - b);
  const responses = statuses.map((status) => [status, common(byStatus.get(status)!)] as const);
  const revalidates = route.etag && route.method === "GET";
  return Object.fromEntries(revalidates ? [[304, NOT_MODIFIED], ...responses] : responses);
}

/** Returns a reference to a common response if the refusals are exactly that, else a response of their own. */
function common(refusals: Refusal[]): Schema {
  const [{ status, code, reasons }, ...others] = refusals as [Refusal, ...Refusal[]];
  const [name] = COMMON.find((response) => response[1] === status && response[2] === code) ?? [];
  const alone = others.length === 0 && reasons.length === 0;
  return name && alone ? { $ref: `#/components/responses/${name}` } : errorResponse(status, refusals);
}

const quoted = (words: string[]) => words.map((word) => `\`${word}\``).join(", ");

/** Returns a reference to the common response of a status. */
export function commonResponse(status: number): Schema {
  return { $ref: `#/components/responses/${COMMON.find((response) => response[1] === status)![0]}` };
}

/** Returns a response in the error envelope. */
export function errorResponse(status: number, refusals: Refusal[]): Schema {
  const lines = refusals.map(({ code, reasons }) =>
    reasons.length > 0 ? `${quoted([code])}: ${quoted(reasons)}` : quoted([code]),
  );
  const header = status === 429 || status === 503 ? "Retry-After" : status === 401 && "WWW-Authenticate";
  return {
    description: lines.join("\n\n"),
    ...(header && { headers: { [header]: { $ref: `#/components/headers/${header.replaceAll("-", "")}` } } }),
    content: { "application/json": { schema: envelopeOf(refusals) } },
    "x-codes": refusals.map(({ code, reasons }) => ({ code, reasons })),
  };
}

/** Returns the envelope with the codes that a response can have, and with their reasons. */
function envelopeOf(refusals: Refusal[]): Schema {
  const reasons = [...new Set(refusals.flatMap((refusal) => refusal.reasons))];
  const details = { items: { properties: { reason: { enum: reasons } } } };
  const codes = [...new Set(refusals.map(({ code }) => code))];
  const error = { properties: { code: { enum: codes }, ...(reasons.length > 0 && { details }) } };
  return { allOf: [{ $ref: "#/components/schemas/ErrorEnvelopeDto" }, { properties: { error } }] };
}
