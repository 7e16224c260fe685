/** Where an installation is, and who its authorization server is. */
export type Installation = {
  /** The public origin, which is the issuer too. */
  origin: string;
  /** The path before all routes of the API. */
  prefix: string;
  /** What access tokens are for. */
  resource: string;
  /** Whether the provider is the one in identity, rather than one of the operator's. */
  embedded: boolean;
  /** Whether the provider knows clients by documents that describe them. */
  documents: boolean;
};

export const RESOURCE_METADATA = "/.well-known/oauth-protected-resource";

/** Where the tools of MCP are, below the origin. */
export const MCP_PATH = "/mcp";

/** Where devices without a browser ask for a code (RFC 8628). */
export const DEVICE_AUTHORIZATION = "/oauth2/device_authorization";
export const DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code";

const SCOPES = ["platform:read", "platform:write"];

/** Returns where the metadata of a resource is: the well-known path comes before the resource's own. */
export function resourceMetadataUrl({ resource }: Installation): string {
  const { origin, pathname } = new URL(resource);
  return origin + RESOURCE_METADATA + (pathname === "/" ? "" : pathname);
}

/** Returns the metadata of the API as a protected resource (RFC 9728). */
export function resourceMetadata({ origin, resource }: Installation) {
  return {
    resource,
    authorization_servers: [origin],
    bearer_methods_supported: ["header"],
    scopes_supported: SCOPES,
    resource_name: "Berth",
  };
}

/** Returns where the metadata of the tools is. */
export function toolsMetadataUrl({ origin }: Installation): string {
  return origin + RESOURCE_METADATA + MCP_PATH;
}

/** Returns the metadata of the tools of MCP as a protected resource (RFC 9728). */
export function toolsMetadata(installation: Installation) {
  const resource = installation.origin + MCP_PATH;
  return { ...resourceMetadata(installation), resource, resource_name: "Berth's tools" };
}

/** Returns the metadata of the authorization server (RFC 8414). */
export function serverMetadata({ origin, prefix, embedded, documents }: Installation) {
  return {
    issuer: origin,
    authorization_endpoint: `${origin}/oauth2/auth`,
    token_endpoint: `${origin}/oauth2/token`,
    revocation_endpoint: `${origin}/oauth2/revoke`,
    jwks_uri: `${origin}/.well-known/jwks.json`,
    registration_endpoint: `${origin}${prefix}/oauth/register`,
    scopes_supported: [...SCOPES, "offline_access"],
    response_types_supported: ["code"],
    response_modes_supported: ["query"],
    grant_types_supported: ["authorization_code", "refresh_token", ...(embedded ? [DEVICE_GRANT] : [])],
    code_challenge_methods_supported: ["S256"],
    // Every client is public.
    token_endpoint_auth_methods_supported: ["none"],
    revocation_endpoint_auth_methods_supported: ["none"],
    // Ory Hydra sends no `iss` along with its answers, and has pages of its own for devices, if any.
    ...(embedded && {
      authorization_response_iss_parameter_supported: true,
      device_authorization_endpoint: origin + DEVICE_AUTHORIZATION,
    }),
    ...(documents && { client_id_metadata_document_supported: true }),
  };
}

/**
 * Returns the same as `serverMetadata`, and what OpenID Connect Discovery requires besides, for clients that look for
 * it there. The scope `openid` is not listed: its ID tokens hold the id of a user, and nothing else about people.
 */
export function openidConfiguration(installation: Installation) {
  return {
    ...serverMetadata(installation),
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: [installation.embedded ? "ES256" : "RS256"],
    // Where it is left out, it counts as true.
    request_uri_parameter_supported: false,
  };
}
