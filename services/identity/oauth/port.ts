import type { RoleName } from "../../kit/rpc/caller-token.ts";

/** Who asks for access, as the client describes itself. */
export type ClientView = {
  clientId: string;
  clientName: string;
  clientUri: string;
  logoUri: string;
  /** Where the answer goes: the host of http(s), or an application's own scheme, such as `cursor:`. */
  redirectHost: string;
  /** The host that vouches for all this, when the client's id is the URL of a document. */
  documentHost?: string;
};

/** Returns the `redirectHost` of a redirect URI, "" for none. What follows another scheme looks like a host, and is none. */
export function redirectHostOf(uri: string): string {
  if (!URL.canParse(uri)) return "";
  const { protocol, host } = new URL(uri);
  return protocol === "https:" || protocol === "http:" ? host : protocol;
}

/** A login or consent that a browser waits for. */
export type AuthorizationRequest = {
  client: ClientView;
  requestedScope: string[];
  /** URLs of the resources that the client wants tokens for. */
  requestedAudience: string[];
  /** The user it is for: in a consent who signed in, in a login whom the client expects, if anybody. */
  subject: string | undefined;
  expiresAt: Date;
};

/** What a user grants to a client. */
export type Grant = {
  id: string;
  userId: string;
  clientId: string;
  accountId: string;
  role: Exclude<RoleName, "owner">;
};

/** What an access token says, when it is genuine and has not expired. */
export type AccessToken = { grantId: string; expiresAt: Date };

/** Client metadata as it was registered: the document of RFC 7591, section 3.2.1. */
export type ClientDocument = { client_id: string; client_name: string; redirect_uris: string[] } & Record<
  string,
  unknown
>;

/** Why a client cannot be registered: the error of RFC 7591, section 3.2.2. */
export type RegistrationRefusal = {
  error: "invalid_redirect_uri" | "invalid_client_metadata";
  errorDescription: string;
};

/**
 * The OAuth authorization server that hands logins and consents over to Berth (docs/oauth.md#consent). Challenges are one
 * use: the caller claims each before it answers. Every method rejects with `ProviderUnavailable` when the provider
 * does not answer.
 */
export type IdentityProvider = {
  /** Returns undefined for a challenge that is unknown, expired, or of a consent. */
  findLogin(challenge: string): Promise<AuthorizationRequest | undefined>;
  /** Resolves to where the browser goes on. `verifier` has to come along there, if the provider checks none itself. */
  acceptLogin(challenge: string, login: { userId: string; verifier: string }): Promise<string | undefined>;
  /** Returns undefined for a challenge that is unknown, expired, or of a login. */
  findConsent(challenge: string): Promise<AuthorizationRequest | undefined>;
  acceptConsent(challenge: string, consent: { grant: Grant; verifier: string }): Promise<string | undefined>;
  /** Ends the authorization: the client receives access_denied. */
  reject(
    kind: "login" | "consent",
    challenge: string,
    decision: { verifier: string },
  ): Promise<string | undefined>;
  /** Makes known a client, whose row is there. Returns why the provider refuses it, if it does. */
  registerClient(client: ClientDocument): Promise<RegistrationRefusal | undefined>;
  /** Has the provider forget a client, also one that it does not know; its row stays. */
  deleteClient(clientId: string): Promise<void>;
  /** Ends what the provider issued for these grants of a user to a client. */
  revoke(grants: { userId: string; clientId: string; grantIds: string[] }): Promise<void>;
  /** Returns undefined for a token that is forged, expired, or not for this installation. */
  verifyAccessToken(token: string): Promise<AccessToken | undefined>;
};

/** The provider does not answer, or not as it should. */
export class ProviderUnavailable extends Error {}
