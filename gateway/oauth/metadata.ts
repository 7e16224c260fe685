const SCOPES = ["platform:read", "platform:write", "offline_access"];

/** Where an installation is: its public origin, and the prefix of the API. */
export type Place = { origin: string; prefix: string; embedded: boolean };

/** The metadata of the authorization server (RFC 8414). */
export function serverMetadata({ origin, prefix, embedded }: Place) {
  return {
    issuer: origin,
    authorization_endpoint: `${origin}/oauth2/auth`,
    token_endpoint: `${origin}/oauth2/token`,
    revocation_endpoint: `${origin}/oauth2/revoke`,
    jwks_uri: `${origin}/.well-known/jwks.json`,
    registration_endpoint: `${origin}${prefix}/oauth/register`,
    scopes_supported: SCOPES,
    response_types_supported: ["code"],
    response_modes_supported: ["query"],
    grant_types_supported: ["authorization_code", "refresh_token"],
    code_challenge_methods_supported: ["S256"],
    token_endpoint_auth_methods_supported: ["none"],
    revocation_endpoint_auth_methods_supported: ["none"],
    ...(embedded && { authorization_response_iss_parameter_supported: true }),
  };
}

/** The metadata of the API as a protected resource (RFC 9728). */
export function resourceMetadata({ origin, prefix }: Place) {
  return {
    resource: origin + prefix,
    authorization_servers: [origin],
    bearer_methods_supported: ["header"],
    scopes_supported: SCOPES.slice(0, 2),
    resource_name: "Berth",
  };
}
