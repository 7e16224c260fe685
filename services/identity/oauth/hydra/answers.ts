import { isObject } from "../../../kit/process/config.ts";
import {
  type AccessToken,
  type AuthorizationRequest,
  type ClientView,
  type RegistrationRefusal,
  redirectHostOf,
} from "../port.ts";
import { sameResource } from "../scopes.ts";

type Body = Record<string, unknown>;

/** How long an answered challenge is remembered. Hydra does not say when it ends; an operator sets 10 minutes. */
const CHALLENGE_MS = 24 * 3600_000;

/**
 * Returns what Hydra says of a challenge. Hydra does not know the parameter `resource` (RFC 8707), so it is read from
 * the URL of the request. Throws when the answer is not one of Hydra's.
 */
export function toRequest(body: Body, given: { resource: string; now: number }): AuthorizationRequest {
  const { url, audience } = askedBy(body);
  return {
    client: toClient(body.client, url.searchParams.get("redirect_uri")),
    requestedScope: texts(body.requested_scope),
    requestedAudience: audience.length > 0 ? [...new Set(audience)] : [given.resource],
    subject: text(body.subject) || undefined,
    expiresAt: new Date(given.now + CHALLENGE_MS),
  };
}

/**
 * Returns the error of a request that Hydra lets pass: for another resource than `resource` (RFC 8707, section 2), or
 * without PKCE, which Hydra looks for after the consent, if it is set to.
 */
export function faultOf(
  body: Body,
  resource: string,
): { error: string; error_description: string } | undefined {
  const { url, audience } = askedBy(body);
  if (!audience.every((one) => sameResource(one, resource)))
    return { error: "invalid_target", error_description: `The resource has to be ${resource}` };
  const { code_challenge: challenge, code_challenge_method: method } = Object.fromEntries(url.searchParams);
  if (!challenge || method !== "S256")
    return { error: "invalid_request", error_description: "PKCE is required, with the method S256" };
  return undefined;
}

/** The URL of an authorization request, and the resources it is for. */
function askedBy(body: Body) {
  const url = parsed(text(body.request_url));
  if (!url) throw new Error("a request without its URL");
  const audience = [...url.searchParams.getAll("resource"), ...texts(body.requested_access_token_audience)];
  return { url, audience };
}

function toClient(client: unknown, redirectUri: string | null): ClientView {
  const said = isObject(client) ? client : {};
  const clientId = text(said.client_id);
  if (!clientId) throw new Error("a request without its client");
  return {
    clientId,
    clientName: text(said.client_name) || clientId,
    clientUri: webPage(said.client_uri),
    logoUri: webPage(said.logo_uri),
    redirectHost: redirectHostOf(redirectUri ?? texts(said.redirect_uris)[0] ?? ""),
  };
}

/**
 * Returns where the browser goes on. Throws for an address that is not the installation's, or
 * without Hydra's verifier: that restarts the login of another user silently.
 */
export function toRedirect(body: Body, kind: "login" | "consent", origin: string): string {
  const redirectTo = text(body.redirect_to);
  const url = parsed(redirectTo);
  if (!url?.searchParams.get(`${kind}_verifier`)) throw new Error("no verifier in the redirect");
  if (url.origin !== new URL(origin).origin)
    throw new Error(`a redirect to ${url.origin}: set Hydra's urls.self.issuer to ${origin}`);
  return redirectTo;
}

/** Returns what an introspection says of an access token; undefined for one that is not valid, or not for `resource`. */
export function toAccessToken(body: Body, given: { resource: string; now: number }): AccessToken | undefined {
  const { active, exp, aud, token_use: use = "access_token" } = body;
  const claims: Body = isObject(body.ext) ? body.ext : body;
  const grantId = text(claims.grant_id ?? body.grant_id);
  const audience = typeof aud === "string" ? [aud] : texts(aud);
  // Refresh tokens are introspected as well.
  if (active !== true || use !== "access_token" || !grantId) return undefined;
  if (typeof exp !== "number" || exp * 1_000 <= given.now) return undefined;
  if (!audience.some((one) => sameResource(one, given.resource))) return undefined;
  return { grantId, expiresAt: new Date(exp * 1_000) };
}

/** Returns why Hydra does not take a client. */
export function toRefusal(body: Body): RegistrationRefusal {
  const error = body.error === "invalid_redirect_uri" ? body.error : "invalid_client_metadata";
  return { error, errorDescription: text(body.error_description).slice(0, 300) || "The provider refuses it" };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

function parsed(value: string): URL | undefined {
  return URL.parse(value) ?? undefined;
}

/** Links are shown to users: only those that lead to a page. */
function webPage(value: unknown): string {
  return parsed(text(value))?.protocol === "https:" ? text(value) : "";
}
