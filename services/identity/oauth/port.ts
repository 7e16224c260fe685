import type { Grant } from "../grants/sql.ts";

/** The client that requests access, as it describes itself. */
export type ClientView = {
  clientId: string;
  clientName: string;
  clientUri: string;
  logoUri: string;
  /** Where the browser is redirected: the host of an http(s) URI, or an application's own scheme, such as `cursor:`. */
  redirectHost: string;
  /** The host that serves this description, when the client's id is the URL of a document. */
  documentHost?: string;
  /** Whether it is a client of Berth itself. */
  firstParty?: true;
};

/** Returns the `redirectHost` of a redirect URI, "" for an invalid one. What follows a custom scheme is not a host. */
export function redirectHostOf(uri: string): string {
  if (!URL.canParse(uri)) return "";
  const { protocol, host } = new URL(uri);
  return protocol === "https:" || protocol === "http:" ? host : protocol;
}

/** A login or consent for which a browser is waiting. */
export type AuthorizationRequest = {
  client: ClientView;
  requestedScope: string[];
  /** URLs of the resources for which the client requests tokens. */
  requestedAudience: string[];
  /** The user it is for: in a consent the one who signed in, in a login the one the client expects, if any. */
  subject: string | undefined;
  expiresAt: Date;
};

/** A request of a device without a browser, which a user answers (docs/oauth.md#devices-without-a-browser). */
export type DeviceRequest = AuthorizationRequest & {
  /** Identifies it in `decideDevice`. */
  hash: Buffer;
  /** The address from which the device asks. */
  ip: string;
  requestedAt: Date;
  /** False once it was answered, or has expired. */
  pending: boolean;
};

/** The claims of a valid access token. */
export type AccessToken = {
  grantId: string;
  /** Whether it is for the tools of MCP, and not for the API. */
  toolsOnly: boolean;
  expiresAt: Date;
};

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
 * The OAuth authorization server, which delegates logins and consents to Berth (docs/oauth.md#consent). A challenge is
 * for one use: the caller claims it before answering. Every method rejects with `ProviderUnavailable` when the provider
 * does not answer.
 */
export type IdentityProvider = {
  /** Returns undefined for a challenge that is unknown, expired, or of a consent. */
  findLogin(challenge: string): Promise<AuthorizationRequest | undefined>;
  /** Resolves to the URL where the browser continues. It carries `verifier`, unless the provider has its own. */
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
  /** Returns the request of a device with this user code; undefined for one that is unknown. */
  findDevice(userCode: string): Promise<DeviceRequest | undefined>;
  /** Stores what the provider needs for the tokens of a grant to a device, which gets none until the grant is committed. */
  prepareGrant(grant: Grant, request: DeviceRequest): Promise<void>;
  /** Registers a client, whose row exists, with the provider. Returns why the provider refuses it, if it does. */
  registerClient(client: ClientDocument): Promise<RegistrationRefusal | undefined>;
  /** Deletes a client at the provider, if it exists there; its row stays. */
  deleteClient(clientId: string): Promise<void>;
  /** Ends everything that the provider issued for these grants of a user to a client. */
  revoke(grants: { userId: string; clientId: string; grantIds: string[] }): Promise<void>;
  /** Returns undefined for a token that is forged, expired, or not for this installation. */
  verifyAccessToken(token: string): Promise<AccessToken | undefined>;
};

/** The provider does not answer, or answers unexpectedly. */
export class ProviderUnavailable extends Error {}
