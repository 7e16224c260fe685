import type Provider from "oidc-provider";
import type { KoaContextWithOIDC } from "oidc-provider";
import { Counter } from "prom-client";

/** What users decided when a client asked for access: the role they gave it, or that they denied. */
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

/** Counts requests at a provider's token endpoint; what a client may write freely is no label. */
export function countTokenRequests(provider: Provider): void {
  const count = ({ oidc }: KoaContextWithOIDC, result: string) => {
    const asked = String(oidc.params?.grant_type);
    const grantType = /^(authorization_code|refresh_token)$/.test(asked) ? asked : "other";
    tokenRequests.inc({ grant_type: grantType, result });
  };
  provider.on("grant.success", (ctx) => count(ctx, "issued"));
  provider.on("grant.error", (ctx, { error }) => count(ctx, error));
}
