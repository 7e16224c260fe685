/** Where an installation is, and who its authorization server is. */
export type Place = {
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

const SCOPES = ["platform:read", "platform:write"];

/** Returns where the metadata of a resource is: the well-known path comes before the resource's own. */
export function resourceMetadataUrl({ resource }: Place): string {
  const { origin, pathname } = new URL(resource);
  return origin + RESOURCE_METADATA + (pathname === "/" ? "" : pathname);
}

/** Returns the metadata of the API as a protected resource (RFC 9728). */
export function resourceMetadata({ origin, resource }: Place) {
  return {
    resource,
    authorization_servers: [origin],
    bearer_methods_supported: ["header"],
    scopes_supported: SCOPES,
    resource_name: "Berth",
  };
}

/** Returns the metadata of the authorization server (RFC 8414). */
export function serverMetadata({ origin, prefix, embedded, documents }: Place) {
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
    grant_types_supported: ["authorization_code", "refresh_token"],
    code_challenge_methods_supported: ["S256"],
    // Every client is public.
    token_endpoint_auth_methods_supported: ["none"],
    revocation_endpoint_auth_methods_supported: ["none"],
    // Ory Hydra sends no `iss` along with its answers.
    ...(embedded && { authorization_response_iss_parameter_supported: true }),
    ...(documents && { client_id_metadata_document_supported: true }),
  };
}

/**
 * Returns the same as `serverMetadata`, and what OpenID Connect Discovery requires besides, for clients that look for
 * it there. The scope `openid` is not listed: its ID tokens hold the id of a user, and nothing else about people.
 */
export function openidConfiguration(place: Place) {
  return {
    ...serverMetadata(place),
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: [place.embedded ? "ES256" : "RS256"],
    // Where it is left out, it counts as true.
    request_uri_parameter_supported: false,
  };
}
