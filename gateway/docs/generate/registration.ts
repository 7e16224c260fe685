import { commonResponse, errorResponse } from "./errors/error-responses.ts";
import type { Schema } from "./schemas.ts";

// The registration of OAuth clients is no RPC's route: its shapes are those of RFC 7591.

const PATH = "/oauth/register";

const text = (description: string): Schema => ({ type: "string", description });
const texts = (description: string): Schema => ({ type: "array", description, items: { type: "string" } });
const reference = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });
const json = (schema: Schema, example?: object): Schema => ({
  "application/json": { schema, ...(example && { example }) },
});

const metadata: Record<string, Schema> = {
  redirect_uris: {
    ...texts(
      "The URIs to which users can be redirected: 1 to 10, each with at most 1024 characters. None for a client that " +
        "only runs on devices without a browser.",
    ),
    maxItems: 10,
  },
  client_name: text("The name that users see."),
  client_uri: text("The https URL of the client's home page."),
  logo_uri: text("The https URL of the client's logo. Berth never fetches it."),
  tos_uri: text("The https URL of the terms of service."),
  policy_uri: text("The https URL of the privacy policy."),
  grant_types: texts(
    "`authorization_code`, `urn:ietf:params:oauth:grant-type:device_code`, or both, and always `refresh_token`. Defaults " +
      "to `authorization_code`.",
  ),
  response_types: texts("`code`, or nothing for a client that only runs on devices."),
  token_endpoint_auth_method: text("Always `none`, whatever the client requests: clients use PKCE instead."),
  application_type: text("`native` or `web`. Defaults to the type that fits the redirect URIs."),
  scope: text("The scopes that the client may request, separated by spaces."),
  contacts: texts("How to contact the people responsible for the client."),
  software_id: text("An identifier of the software, the same for all of its installations."),
  software_version: text("The version of the software."),
};

/** The schemas that the operations refer to. */
export const registrationSchemas: Record<string, Schema> = {
  ClientMetadata: {
    type: "object",
    description: "The client's description of itself (RFC 7591, section 2). Unknown fields are ignored.",
    properties: metadata,
    additionalProperties: true,
  },
  RegisteredClientDto: {
    type: "object",
    description: "The registered client (RFC 7591, section 3.2.1). It has no secret.",
    properties: {
      client_id: text("The id of the client."),
      client_id_issued_at: {
        type: "integer",
        description: "When the client was registered, in seconds since 1970.",
      },
      ...metadata,
    },
    required: [
      ...["client_id", "client_id_issued_at", "client_name", "redirect_uris", "grant_types"],
      ...["response_types", "token_endpoint_auth_method", "application_type", "scope"],
    ],
  },
  RegistrationErrorDto: {
    type: "object",
    description: "A registration error (RFC 7591, section 3.2.2).",
    properties: {
      error: text("The error code, for programs."),
      error_description: text("What went wrong, for people."),
    },
    required: ["error", "error_description"],
  },
};

/** Returns an error that is shaped as RFC 7591 says. */
const rfcError = (status: number, codes: string[]): Schema => ({
  ...errorResponse(
    status,
    codes.map((code) => ({ status, code, reasons: [] })),
  ),
  content: json(reference("RegistrationErrorDto")),
});

const client = { client_name: "An editor", redirect_uris: ["http://127.0.0.1/callback"] };

const common = {
  tags: ["Oauth"],
  security: [],
  "x-role": "none",
};

const register: Schema = {
  ...common,
  operationId: "registerClient",
  summary: "Register client",
  description:
    "Registers an OAuth client according to RFC 7591. Anyone can register a client, and nobody verifies what it " +
    "says about itself. Every client is public and uses PKCE.\n\nRole: none.",
  parameters: [],
  requestBody: { required: true, content: json(reference("ClientMetadata"), client) },
  responses: {
    201: {
      description: "Created.",
      content: json(reference("RegisteredClientDto"), {
        client_id: "b1WQeFZq0wZ3rXqgXg8n2w",
        client_id_issued_at: 1763632800,
        ...client,
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: "none",
        application_type: "native",
        scope: "platform:read platform:write offline_access",
      }),
    },
    400: rfcError(400, ["invalid_redirect_uri", "invalid_client_metadata"]),
    ...Object.fromEntries([408, 417, 429, 431, 500].map((status) => [status, commonResponse(status)])),
    502: errorResponse(502, [{ status: 502, code: "identity_provider_unavailable", reasons: [] }]),
    503: commonResponse(503),
  },
  "x-rate-limit": "registrations",
};

const CLIENT_ID = { name: "clientId", in: "path", required: true, schema: { type: "string" } };

/** Returns an operation of RFC 7592, none of which is offered. */
function notOffered(name: string): Schema {
  return {
    ...common,
    operationId: `${name}RegisteredClient`,
    summary: `${name[0]!.toUpperCase()}${name.slice(1)} registered client`,
    description:
      "Not supported (RFC 7592). The answer is always 404, for known and unknown clients.\n\nRole: none.",
    parameters: [CLIENT_ID],
    responses: {
      400: commonResponse(400),
      404: rfcError(404, ["invalid_request"]),
      431: commonResponse(431),
      500: commonResponse(500),
    },
  };
}

/** The operations, by path and method. */
export const registrationPaths: Record<string, Record<string, Schema>> = {
  [PATH]: { post: register },
  [`${PATH}/{clientId}`]: {
    get: notOffered("get"),
    put: notOffered("update"),
    delete: notOffered("delete"),
  },
};
