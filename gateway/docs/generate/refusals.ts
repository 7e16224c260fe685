import type { Refusal } from "../../../proto/gen/berth/options/v1/options_pb.ts";
import { rulesOf } from "../../../services/kit/rpc/interceptor.ts";
import type { Route } from "../../routing/routes.ts";
import { lastEventId } from "./events.ts";
import { inputReasons } from "./input-reasons.ts";
import type { Schema } from "./schemas.ts";

type Said = Pick<Refusal, "status" | "code"> & { reasons: string };

/** Returns the refusals of a route: those of its rules, and those that follow from what kind of route it is. */
export function refusalsOf(route: Route): Said[] {
  const rules = rulesOf(route.rpc);
  const all: Said[] = [];
  const add = (status: number, code: string, reasons = "") => {
    if (!all.some((refusal) => refusal.status === status && refusal.code === code))
      all.push({ status, code, reasons });
  };
  if (route.bodyMembers.has("confirmImpact")) add(409, "impact_confirmation_required");
  for (const { status, code } of rules.refusals) add(status, code);
  const hasBody = route.method !== "GET";
  const keyed = route.method === "POST" && !route.isPublic;
  add(400, "malformed_request");
  if (!route.isPublic) add(401, "unauthenticated");
  if (route.needs) add(403, "forbidden");
  if (route.usersOnly) add(403, "machine_actor_forbidden");
  if (route.pathMembers.some(({ name }) => name !== "accountId")) add(404, "not_found");
  add(408, "malformed_request");
  if (hasBody) add(413, "payload_too_large");
  if (hasBody) add(415, "unsupported_media_type");
  const reasons = [...rules.reasons.split(","), ...inputReasons(route), ...(keyed ? ["invalid_key"] : [])];
  add(422, "validation_failed", [...new Set(reasons)].filter(Boolean).join());
  add(431, "malformed_request");
  if (keyed) {
    add(409, "idempotency_key_reused");
    add(409, "conflict");
  }
  add(429, "rate_limited");
  add(500, "internal");
  add(503, "unavailable");
  return all;
}

/** One response per status, with the codes and reasons that it may carry. */
export function errorResponses(route: Route): Schema {
  const byStatus = Map.groupBy(refusalsOf(route), (refusal) => refusal.status);
  const statuses = [...byStatus.keys()].sort((a, b) => a - b);
  const responses = statuses.map((status) => [status, referred(status, byStatus.get(status)!)]);
  return Object.fromEntries(route.etag && route.method === "GET" ? [notModified, ...responses] : responses);
}

const notModified = [304, { description: "What If-None-Match names is still current; no body." }];

// What means the same wherever it stands is written once.
const COMMON: [status: number, code: string, sentence: string][] = [
  [400, "malformed_request", "The path, the headers or the body can not be read, or a cursor is foreign."],
  [401, "unauthenticated", "There is no bearer token, or it does not work."],
  [408, "malformed_request", "The request took too long to arrive."],
  [413, "payload_too_large", "The body is larger than the endpoint takes."],
  [415, "unsupported_media_type", "The body is not application/json, or it is compressed."],
  [429, "rate_limited", "Too many requests in this minute."],
  [431, "malformed_request", "The headers are too large."],
  [500, "internal", "Something went wrong on our side."],
  [503, "unavailable", "Something that is needed is away. Try again."],
];

const pascal = (code: string) =>
  code.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());

const NAMES: Record<number, string> = { 408: "RequestTimeout", 431: "HeadersTooLarge" };
const nameOf = (status: number, code: string) => NAMES[status] ?? pascal(code);

function commonResponses(): Record<string, Schema> {
  return Object.fromEntries(
    COMMON.map(([status, code, sentence]) => {
      const { description, ...rest } = errorResponse(status, [{ status, code, reasons: "" }]);
      return [nameOf(status, code), { description: `${description}: ${sentence}`, ...rest }];
    }),
  );
}

function referred(status: number, refusals: Said[]): Schema {
  const [only] = refusals;
  const common = COMMON.some(([at, code]) => at === status && code === only!.code);
  if (refusals.length === 1 && only!.reasons === "" && common)
    return { $ref: `#/components/responses/${nameOf(status, only!.code)}` };
  return errorResponse(status, refusals);
}

function errorResponse(status: number, refusals: Said[]): Schema {
  const lines = refusals.map(({ code, reasons }) => {
    const named = reasons.split(",").filter(Boolean);
    return named.length > 0
      ? `\`${code}\`: ${named.map((reason) => `\`${reason}\``).join(", ")}`
      : `\`${code}\``;
  });
  const later = status === 429 || status === 503;
  return {
    description: lines.join("\n\n"),
    ...(later && { headers: { "Retry-After": { $ref: "#/components/headers/RetryAfter" } } }),
    content: { "application/json": { schema: { $ref: "#/components/schemas/ErrorEnvelopeDto" } } },
    "x-codes": refusals.map(({ code, reasons }) => ({ code, reasons: reasons.split(",").filter(Boolean) })),
  };
}

const text = (description: string): Schema => ({ type: "string", description });

/** What is the same in every document. */
export const fixedComponents = {
  responses: commonResponses(),
  securitySchemes: {
    bearer: { type: "http", scheme: "bearer", description: "A personal token or the token of a session." },
  },
  parameters: {
    IdempotencyKey: {
      name: "Idempotency-Key",
      in: "header",
      description:
        "The same key with the same request within 24 hours answers what the first request was answered, " +
        "with `Idempotent-Replayed: true`; with another request it is `409 idempotency_key_reused`, and " +
        "while the first is under way `409 conflict`. A refusal does not use the key up: repeat after a 5xx.",
      schema: { type: "string", pattern: "^[!-~]{1,255}$" },
    },
    IfNoneMatch: {
      name: "If-None-Match",
      in: "header",
      description: "An ETag: `304` without a body when it is still current.",
      schema: { type: "string" },
    },
    IfMatch: {
      name: "If-Match",
      in: "header",
      description: "An ETag: `409 revision_conflict` when it is not current any more.",
      schema: { type: "string" },
    },
    LastEventId: lastEventId,
  },
  headers: {
    ETag: {
      description: "Changes with the resource; for If-None-Match and If-Match.",
      schema: { type: "string" },
    },
    RetryAfter: { description: "Seconds to wait.", schema: { type: "integer" } },
  },
  schemas: {
    ErrorEnvelopeDto: {
      type: "object",
      description: "Every error. Some codes add members, such as `requiredRole` or `impact`.",
      properties: {
        error: {
          type: "object",
          properties: {
            code: text("What went wrong, for programs."),
            message: text("What went wrong and what to change, for people."),
            requestId: text("The `X-Request-Id` of the request."),
            details: {
              type: "array",
              description: "Which members are wrong, and why.",
              items: {
                type: "object",
                properties: {
                  path: text("The member, such as `set[3].name`."),
                  reason: text("Why, for programs."),
                  message: text("Why, for people."),
                },
                required: ["path", "reason", "message"],
              },
            },
          },
          required: ["code", "message", "requestId", "details"],
          additionalProperties: true,
        },
      },
      required: ["error"],
    },
  },
};
