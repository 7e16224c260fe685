import { createHash, randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { reasonOf, Unreachable } from "../../typescript/src/errors.ts";
import { Failure, refused } from "../failure.ts";
import type { Credential } from "./credentials.ts";
import { USER_AGENT } from "./http.ts";

/** What of an authorization server's metadata is used (RFC 8414). */
export type AuthorizationServer = {
  issuer: string;
  authorization_endpoint: string;
  token_endpoint: string;
  registration_endpoint?: string;
  revocation_endpoint?: string;
  device_authorization_endpoint?: string;
  authorization_response_iss_parameter_supported?: boolean;
};

/** Where and with whom a token is to be got. */
export type Provider = { server: AuthorizationServer; resource: string };

export type OauthCredential = Extract<Credential, { kind: "oauth" }>;
export type OauthError = { error: string; error_description?: string };
type Tokens = { access_token: string; refresh_token?: string; expires_in?: number };

const TIMEOUT_MS = 20_000;
/** After this no other try begins. */
const PATIENCE_MS = 15_000;
export const SCOPE = "platform:read platform:write offline_access";
export const DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code";

/** Sends a request of a protocol. Throws `Unreachable` when no answer arrives. */
export async function request(
  url: string,
  init: RequestInit = {},
): Promise<{ status: number; body: unknown }> {
  const headers = { accept: "application/json", "user-agent": USER_AGENT, ...init.headers };
  try {
    const signal = init.signal ?? null;
    const late = AbortSignal.timeout(TIMEOUT_MS);
    const limits = signal ? AbortSignal.any([signal, late]) : late;
    const response = await fetch(url, { redirect: "error", ...init, headers, signal: limits });
    const text = await response.text();
    try {
      return { status: response.status, body: text === "" ? {} : JSON.parse(text) };
    } catch {
      return { status: response.status, body: undefined };
    }
  } catch (error) {
    init.signal?.throwIfAborted();
    throw new Unreachable(`${new URL(url).origin} cannot be reached: ${reasonOf(error)}.`, { cause: error });
  }
}

/** Sends a form, as the endpoints of OAuth take it. */
export const postForm = (url: string, form: Record<string, string>, signal?: AbortSignal) =>
  request(url, { method: "POST", body: new URLSearchParams(form), ...(signal && { signal }) });

/** Finds the authorization server of an installation (RFC 9728, RFC 8414). */
export async function discover(origin: string, signal?: AbortSignal): Promise<Provider> {
  const read = async <T>(path: string) => {
    const { status, body } = await request(origin + path, signal ? { signal } : {});
    return status === 200 ? (body as T | undefined) : undefined;
  };
  const [resource, server] = await Promise.all([
    read<{ resource?: string }>("/.well-known/oauth-protected-resource"),
    read<AuthorizationServer>("/.well-known/oauth-authorization-server"),
  ]);
  if (!server?.token_endpoint || !server.authorization_endpoint)
    throw refused(`${origin} is no Berth, or offers no sign-in.`, "berth login https://berth.example.com");
  if (server.issuer.replace(/\/$/, "") !== origin)
    throw refused(`${origin} names another issuer: ${server.issuer}.`, `berth login ${server.issuer}`);
  return { server, resource: resource?.resource ?? `${origin}/v1` };
}

/** Registers this program as a client (RFC 7591), and returns its id. */
export async function register(
  { server }: Provider,
  redirectUri: string,
  signal: AbortSignal,
): Promise<string> {
  if (!server.registration_endpoint)
    throw refused(`${server.issuer} registers no clients.`, "berth login --client-id ID");
  const body = JSON.stringify({
    client_name: `Berth CLI on ${hostname()}`,
    redirect_uris: [redirectUri],
    grant_types: ["authorization_code", "refresh_token", DEVICE_GRANT],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    application_type: "native",
    scope: SCOPE,
    software_id: "berth-cli",
  });
  const headers = { "content-type": "application/json" };
  const answer = await request(server.registration_endpoint, { method: "POST", headers, body, signal });
  const { client_id: id } = (answer.body ?? {}) as { client_id?: string };
  if (answer.status !== 201 || !id)
    throw refused(`The sign-in was refused: ${whyNot(answer.body)}`, "berth login");
  return id;
}

/** Returns what an error of OAuth, or of the API, says. */
export function whyNot(body: unknown): string {
  const { error, error_description: description } = (body ?? {}) as Partial<OauthError> & {
    error?: string | { message?: string };
  };
  if (typeof error === "object") return (error as { message?: string }).message ?? "no reason was given.";
  return description ?? error ?? "no reason was given.";
}

/** A proof key (RFC 7636). */
export function proofKey() {
  const verifier = randomBytes(32).toString("base64url");
  return { verifier, challenge: createHash("sha256").update(verifier).digest("base64url") };
}

/** Makes the credential that tokens are. */
export function credentialOf(
  { server, resource }: Provider,
  clientId: string,
  tokens: Tokens,
): OauthCredential {
  const { access_token: accessToken, refresh_token: refreshToken, expires_in: seconds = 300 } = tokens;
  if (!refreshToken) throw refused("The installation gave no token that can be renewed.", "berth login");
  return {
    kind: "oauth",
    clientId,
    accessToken,
    refreshToken,
    expiresAt: Date.now() + seconds * 1_000,
    issuer: server.issuer,
    tokenEndpoint: server.token_endpoint,
    ...(server.revocation_endpoint && { revocationEndpoint: server.revocation_endpoint }),
    resource,
  };
}

/**
 * Exchanges the refresh token for new tokens. Throws when the access has ended. A lost answer is asked for again: for
 * 30 s the server takes the former refresh token too (docs/oauth.md#machine-tokens).
 */
export async function refresh(credential: OauthCredential): Promise<OauthCredential> {
  const until = performance.now() + PATIENCE_MS;
  for (let attempt = 0; ; attempt++) {
    try {
      return await refreshOnce(credential);
    } catch (error) {
      if (!(error instanceof Unreachable) || performance.now() > until) throw error;
      await delay(250 * 2 ** attempt);
    }
  }
}

async function refreshOnce(credential: OauthCredential): Promise<OauthCredential> {
  const { clientId, refreshToken, tokenEndpoint, resource } = credential;
  const form = { grant_type: "refresh_token", client_id: clientId, refresh_token: refreshToken, resource };
  const { status, body } = await postForm(tokenEndpoint, form);
  const tokens = (body ?? {}) as Partial<Tokens>;
  if (status === 200 && tokens.access_token)
    return {
      ...credential,
      accessToken: tokens.access_token,
      refreshToken: tokens.refresh_token ?? refreshToken,
      expiresAt: Date.now() + (tokens.expires_in ?? 300) * 1_000,
    };
  if (status === 429 || status >= 500)
    throw new Unreachable(`${new URL(tokenEndpoint).origin} cannot renew the sign-in now: ${whyNot(body)}`);
  throw ended(new URL(tokenEndpoint).origin);
}

export const ended = (origin: string) =>
  new Failure("refused", `The sign-in to ${origin} has ended.`, `berth login ${origin}`, "unauthenticated");

/** Ends the access at the server (RFC 7009). Returns whether the server has done so. */
export async function revoke({
  revocationEndpoint,
  clientId,
  refreshToken,
}: OauthCredential): Promise<boolean> {
  if (!revocationEndpoint) return false;
  try {
    const { status } = await postForm(revocationEndpoint, { client_id: clientId, token: refreshToken });
    return status === 200;
  } catch {
    return false;
  }
}
