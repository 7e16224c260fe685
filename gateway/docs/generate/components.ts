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
      description: "A personal token, a session token, or an access token of an OAuth client.",
    },
  },
  parameters: {
    IdempotencyKey: {
      name: "Idempotency-Key",
      in: "header",
      description:
        "Makes retries safe. Repeating the same request with the same key within 24 hours returns the response " +
        "to the first request, with `Idempotent-Replayed: true`. A different request with the same key gets " +
        "`409 idempotency_key_reused`. While the first request is in progress, the answer is `409 conflict`. " +
        "A refused request does not use up the key. After a 5xx response, repeat the request.",
      schema: { type: "string", pattern: "^[!-~]{1,255}$" },
    },
    IfNoneMatch: {
      name: "If-None-Match",
      in: "header",
      description: "An ETag. If it is still current, the response is `304` without a body.",
      schema: { type: "string" },
    },
    IfMatch: {
      name: "If-Match",
      in: "header",
      description: "An ETag. If it is no longer current, the response is `409 revision_conflict`.",
      schema: { type: "string" },
    },
    LastEventId: lastEventId,
  },
  headers: {
    ETag: {
      description: "Changes whenever the resource changes. Send it in If-None-Match or If-Match.",
      schema: { type: "string" },
    },
    WWWAuthenticate: {
      description:
        "`Bearer` with the parameters `resource_metadata` (the URL of the metadata with which OAuth clients find " +
        "the authorization server), `scope`, and, if the request had a token, `error`.",
      schema: { type: "string" },
    },
    RetryAfter: { description: "The number of seconds to wait.", schema: { type: "integer" } },
  },
  schemas: {
    ErrorEnvelopeDto: {
      type: "object",
      description: "The envelope of every error. Some codes add fields, such as `requiredRole` or `impact`.",
      properties: {
        error: {
          type: "object",
          properties: {
            code: text("The error code, for programs."),
            message: text("What went wrong and how to fix it, for people."),
            requestId: text("The `X-Request-Id` of the request."),
            details: {
              type: "array",
              description: "The invalid fields, each with the reason.",
              items: {
                type: "object",
                properties: {
                  path: text("The path of the field, such as `set[3].name`."),
                  reason: text("The reason, for programs."),
                  message: text("The reason, for people."),
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
