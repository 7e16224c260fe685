import type { Route } from "../gateway/routes.ts";
import type { Http, Refusal } from "./gen/berth/options/v1/options_pb.ts";
import { lastEventId } from "./openapi-events.ts";
import type { Schema } from "./openapi-schemas.ts";

type Said = Pick<Refusal, "status" | "code" | "reasons">;

/** The refusals of a route: those of its annotation, and those that its kind of route has. */
export function refusalsOf(route: Route, rule: Http): Said[] {
  const all: Said[] = [...rule.refusals];
  const add = (status: number, code: string, reasons = "") => {
    const known = all.find((refusal) => refusal.status === status && refusal.code === code);
    if (!known) all.push({ status, code, reasons });
    else if (reasons !== "")
      all[all.indexOf(known)] = { status, code, reasons: join(known.reasons, reasons) };
  };
  const hasBody = route.method !== "GET";
  const hasInput = route.queryMembers.size > 0 || route.bodyMembers.size > 0;
  if (hasBody || route.queryMembers.has("cursor") || route.follow?.resumes) add(400, "malformed_request");
  if (!route.isPublic) add(401, "unauthenticated");
  if (route.needs) add(403, "forbidden");
  if (route.usersOnly) add(403, "machine_actor_forbidden");
  if (hasBody) add(413, "payload_too_large");
  if (hasBody) add(415, "unsupported_media_type");
  if (hasInput) add(422, "validation_failed", reasonsOf(route));
  if (hasBody && route.method === "POST" && !route.isPublic) {
    add(409, "idempotency_key_reused");
    add(409, "conflict");
  }
  add(429, "rate_limited");
  add(500, "internal");
  add(503, "unavailable");
  return all;
}

function reasonsOf(route: Route): string {
  const bounded = [...route.queryMembers.keys()].includes("limit");
  return `unknown_field,invalid_type${bounded ? ",out_of_range" : ""}`;
}

const join = (a: string, b: string) =>
  [...new Set([...a.split(","), ...b.split(",")])].filter(Boolean).join(",");

/** One response per status, with the codes and reasons that it may carry. */
export function errorResponses(route: Route, rule: Http): Schema {
  const byStatus = Map.groupBy(refusalsOf(route, rule), (refusal) => refusal.status);
  const statuses = [...byStatus.keys()].sort((a, b) => a - b);
  const responses = statuses.map((status) => [status, referred(status, byStatus.get(status)!)]);
  return Object.fromEntries(route.etag && route.method === "GET" ? [notModified, ...responses] : responses);
}

const notModified = [304, { description: "What If-None-Match names is still current; no body." }];

// What means the same wherever it stands is written once.
const COMMON: Record<string, string> = {
  malformed_request: "The body is not valid JSON, or the cursor is not one that the list gave out.",
  unauthenticated: "There is no bearer token, or it does not work.",
  payload_too_large: "The body is larger than the endpoint takes.",
  unsupported_media_type: "The body is not application/json.",
  rate_limited: "Too many requests in this minute.",
  internal: "Something went wrong on our side.",
  unavailable: "Something that is needed is away. Try again.",
};

const pascal = (code: string) =>
  code.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());

function commonResponses(): Record<string, Schema> {
  return Object.fromEntries(
    Object.entries(COMMON).map(([code, sentence]) => {
      const status = code === "rate_limited" ? 429 : code === "unavailable" ? 503 : 0;
      const { description, ...rest } = errorResponse(status, [{ status, code, reasons: "" }]);
      return [pascal(code), { description: `${description}: ${sentence}`, ...rest }];
    }),
  );
}

function referred(status: number, refusals: Said[]): Schema {
  const [only] = refusals;
  if (refusals.length === 1 && only!.reasons === "" && only!.code in COMMON)
    return { $ref: `#/components/responses/${pascal(only!.code)}` };
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
