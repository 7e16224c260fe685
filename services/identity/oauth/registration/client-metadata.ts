type RegistrationError = { error: string; errorDescription: string };
type Metadata = { client_name: string; redirect_uris: string[] } & Record<string, unknown>;

const NO_OBJECT = "the body has to be a JSON object";

/** Reads what a client sends of itself: what is to be stored of it, or the error of RFC 7591. */
export function readMetadata(bytes: Buffer): { client: Metadata } | RegistrationError {
  let sent: Record<string, unknown>;
  try {
    sent = JSON.parse(bytes.toString()) as Record<string, unknown>;
  } catch {
    return { error: "invalid_client_metadata", errorDescription: NO_OBJECT };
  }
  const uris = sent.redirect_uris;
  if (!Array.isArray(uris) || uris.length === 0)
    return { error: "invalid_redirect_uri", errorDescription: "redirect_uris is required" };
  return {
    client: {
      client_name: String(sent.client_name ?? "Unnamed client"),
      redirect_uris: uris as string[],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
      application_type: "native",
      scope: "platform:read platform:write offline_access",
    },
  };
}
