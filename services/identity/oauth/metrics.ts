import type Provider from "oidc-provider";
import type { KoaContextWithOIDC } from "oidc-provider";
import { Counter } from "prom-client";
import { DEVICE_GRANT } from "./scopes.ts";

/** The decisions of users on consent requests: the granted role, or denied. */
export const consents = new Counter({
  name: "berth_oauth_consents_total",
  help: "Consents by the role that was granted, or denied",
  labelNames: ["decision"],
});

export const registrations = new Counter({
  name: "berth_oauth_registrations_total",
  help: "Clients that registered themselves, by result: registered, or the error of RFC 7591",
  labelNames: ["result"],
});

const tokenRequests = new Counter({
  name: "berth_oauth_token_requests_total",
  help: "Requests at the embedded provider's token endpoint, by grant type and result: issued, or the error of OAuth",
  labelNames: ["grant_type", "result"],
});

export const providerFailures = new Counter({
  name: "berth_oauth_provider_failures_total",
  help: "Calls that the OAuth provider did not answer, by method",
  labelNames: ["method"],
});

const GRANT_TYPES = new Map([
  ["authorization_code", "authorization_code"],
  ["refresh_token", "refresh_token"],
  [DEVICE_GRANT, "device_code"],
]);

/** Counts requests at a provider's token endpoint. Values that clients choose freely are never labels. */
export function countTokenRequests(provider: Provider): void {
  const count = ({ oidc }: KoaContextWithOIDC, result: string) => {
    const requested = String(oidc.params?.grant_type);
    const grantType = GRANT_TYPES.get(requested) ?? "other";
    tokenRequests.inc({ grant_type: grantType, result });
  };
  provider.on("grant.success", (ctx) => count(ctx, "issued"));
  provider.on("grant.error", (ctx, { error }) => count(ctx, error));
}
