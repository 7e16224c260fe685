import { isObject } from "../../../kit/process/config.ts";
import {
  type AccessToken,
  type AuthorizationRequest,
  type ClientView,
  type RegistrationRefusal,
  redirectHostOf,
} from "../port.ts";
import { builtInClient } from "../registration/built-in.ts";
import { findResource, type Resources, sameResource } from "../scopes.ts";

type Body = Record<string, unknown>;

/** How long an answered challenge is remembered. Hydra does not report its expiry; the documented setting is 10 minutes. */
const CHALLENGE_MS = 24 * 3600_000;

/**
 * Returns the request of a challenge. Hydra does not support the parameter `resource` (RFC 8707), so it is read from the
 * URL of the request. Throws when the answer is not one of Hydra's.
 */
export function toRequest(body: Body, given: { resource: string; now: number }): AuthorizationRequest {
  const { url, audience } = originalRequest(body);
  return {
    client: toClient(body.client, url.searchParams.get("redirect_uri")),
    requestedScope: texts(body.requested_scope),
    requestedAudience: audience.length > 0 ? [...new Set(audience)] : [given.resource],
    subject: text(body.subject) || undefined,
    expiresAt: new Date(given.now + CHALLENGE_MS),
  };
}

/**
 * Returns the error of a request that Hydra does not refuse itself: one for a resource of another installation (RFC 8707,
 * section 2), or without PKCE, which Hydra checks only after the consent, if configured to.
 */
export function faultOf(
  body: Body,
  own: Resources,
): { error: string; error_description: string } | undefined {
  const { url, audience } = originalRequest(body);
  if (!audience.every((one) => findResource(one, own)))
    return { error: "invalid_target", error_description: `The resource has to be ${own.resource}` };
  const { code_challenge: challenge, code_challenge_method: method } = Object.fromEntries(url.searchParams);
  if (!challenge || method !== "S256")
    return { error: "invalid_request", error_description: "PKCE is required, with the method S256" };
  return undefined;
}

/** Returns the URL of an authorization request, and the resources it is for. */
function originalRequest(body: Body) {
  const url = parsed(text(body.request_url));
  if (!url) throw new Error("a request without its URL");
  const audience = [...url.searchParams.getAll("resource"), ...texts(body.requested_access_token_audience)];
  return { url, audience };
}

function toClient(client: unknown, redirectUri: string | null): ClientView {
  const metadata = isObject(client) ? client : {};
  const clientId = text(metadata.client_id);
  if (!clientId) throw new Error("a request without its client");
  return {
    clientId,
    clientName: text(metadata.client_name) || clientId,
    clientUri: webPage(metadata.client_uri),
    logoUri: webPage(metadata.logo_uri),
    redirectHost: redirectHostOf(redirectUri ?? texts(metadata.redirect_uris)[0] ?? ""),
    ...(builtInClient(clientId) && { firstParty: true as const }),
  };
}

/**
 * Returns the URL to which the browser is redirected. Throws for one outside the installation, or without Hydra's
 * verifier, which would silently restart the login for another user.
 */
export function toRedirect(body: Body, kind: "login" | "consent", origin: string): string {
  const redirectTo = text(body.redirect_to);
  const url = parsed(redirectTo);
  if (!url?.searchParams.get(`${kind}_verifier`)) throw new Error("no verifier in the redirect");
  if (url.origin !== new URL(origin).origin)
    throw new Error(`a redirect to ${url.origin}: set Hydra's urls.self.issuer to ${origin}`);
  return redirectTo;
}

/**
 * Returns which audience a client's token gets: the tools if it asks for nothing else, and Hydra allows them to the client.
 * Clients that registered with an older Berth get tokens for the API, which also reach the tools.
 */
export function audienceOf(body: Body, own: Resources): string {
  const { audience } = originalRequest(body);
  const meant = audience.map((one) => findResource(one, own));
  const [only] = new Set(meant).size === 1 ? meant : [];
  const allowed = isObject(body.client) ? texts(body.client.audience) : [];
  return only !== undefined && allowed.includes(only) ? only : own.resource;
}

/** Returns the access token of an introspection; undefined for one that is not valid, or not for this installation. */
export function toAccessToken(body: Body, given: Resources & { now: number }): AccessToken | undefined {
  const { active, exp, aud, token_use: use = "access_token" } = body;
  const claims: Body = isObject(body.ext) ? body.ext : body;
  const grantId = text(claims.grant_id ?? body.grant_id);
  const audience = typeof aud === "string" ? [aud] : texts(aud);
  // Introspection also accepts refresh tokens.
  if (active !== true || use !== "access_token" || !grantId) return undefined;
  if (typeof exp !== "number" || exp * 1_000 <= given.now) return undefined;
  if (!audience.some((one) => findResource(one, given))) return undefined;
  const toolsOnly = !audience.some((one) => sameResource(one, given.resource));
  return { grantId, toolsOnly, expiresAt: new Date(exp * 1_000) };
}

/** Returns why Hydra refuses a client. */
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

/** Returns a link that can be shown to users, or "" for anything but an https URL. */
function webPage(value: unknown): string {
  return parsed(text(value))?.protocol === "https:" ? text(value) : "";
}
