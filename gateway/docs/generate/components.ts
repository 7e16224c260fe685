import { commonResponses } from "./errors/error-responses.ts";
import { lastEventId } from "./events.ts";
import type { Schema } from "./schemas.ts";

const text = (description: string): Schema => ({ type: "string", description });

/** The components that do not depend on the protos. */
export const fixedComponents = {
  responses: commonResponses(),
  securitySchemes: {
    bearer: {
      type: "http",
      scheme: "bearer",
      description: "A personal token, that of a session, or an OAuth client's.",
    },
  },
  parameters: {
    IdempotencyKey: {
      name: "Idempotency-Key",
      in: "header",
      description:
        "The same key with the same request within 24 hours returns the response to the first one, with " +
        "`Idempotent-Replayed: true`. With another request it is `409 idempotency_key_reused`, and while the " +
        "first is in progress `409 conflict`. A refusal does not use the key up; after a 5xx repeat the request.",
      schema: { type: "string", pattern: "^[!-~]{1,255}$" },
    },
    IfNoneMatch: {
      name: "If-None-Match",
      in: "header",
      description: "An ETag: the response is `304` without a body if it is still current.",
      schema: { type: "string" },
    },
    IfMatch: {
      name: "If-Match",
      in: "header",
      description: "An ETag: the response is `409 revision_conflict` if it is no longer current.",
      schema: { type: "string" },
    },
    LastEventId: lastEventId,
  },
  headers: {
    ETag: {
      description: "Changes with the resource; for If-None-Match and If-Match.",
      schema: { type: "string" },
    },
    WWWAuthenticate: {
      description:
        "`Bearer` with `resource_metadata`, the URL of the metadata that leads OAuth clients to the authorization " +
        "server, `scope`, and `error` where a token was sent.",
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
