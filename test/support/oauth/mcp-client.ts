import * as client from "@modelcontextprotocol/client";
import * as sdk from "@modelcontextprotocol/sdk/client/auth.js";
import * as middleware from "@modelcontextprotocol/sdk/client/middleware.js";

/**
 * Returns what an MCP client keeps: in memory here, in a file or a keychain elsewhere. It registers, unless
 * `clientMetadataUrl` is the URL of a document that describes it.
 */
export function clientStore(name: string, clientMetadataUrl?: string) {
  let information: client.StoredOAuthClientInformation | undefined;
  let tokens: client.StoredOAuthTokens | undefined;
  let verifier = "";
  let discovered: client.OAuthDiscoveryState | undefined;
  let sentTo: URL | undefined;
  return {
    clientMetadataUrl,
    redirectUrl: "http://127.0.0.1:3000/callback",
    clientMetadata: {
      client_name: name,
      redirect_uris: ["http://127.0.0.1:3000/callback"],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    },
    state: () => "a-state-of-its-own",
    clientInformation: () => information,
    saveClientInformation: (given: typeof information) => {
      information = given;
    },
    tokens: () => tokens,
    saveTokens: (given: typeof tokens) => {
      tokens = given;
    },
    codeVerifier: () => verifier,
    saveCodeVerifier: (given: string) => {
      verifier = given;
    },
    discoveryState: () => discovered,
    saveDiscoveryState: (given: typeof discovered) => {
      discovered = given;
    },
    redirectToAuthorization: (url: URL) => {
      sentTo = url;
    },
    invalidateCredentials: (scope: string) => {
      if (scope === "all" || scope === "tokens") tokens = undefined;
      if (scope === "all" || scope === "client") information = undefined;
      if (scope === "all" || scope === "discovery") discovered = undefined;
    },
    /** Where the client has opened the browser; it is asked once. */
    opened: () => {
      const url = sentTo;
      sentTo = undefined;
      return url;
    },
  };
}

/** The two generations of MCP's SDK. */
export const sdks = [
  {
    name: "@modelcontextprotocol/sdk 1",
    auth: sdk.auth,
    withOAuth: middleware.withOAuth,
  },
  {
    name: "@modelcontextprotocol/client 2",
    auth: client.auth,
    withOAuth: client.withOAuth,
  },
];
