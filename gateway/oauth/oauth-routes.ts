import type { FastifyInstance } from "fastify";
import { registerDiscovery } from "./discovery.ts";
import { type ProviderDeps, registerProviderProxy } from "./provider-proxy.ts";
import { type RegistrationDeps, registerRegistration } from "./registration.ts";

export type OauthDeps = RegistrationDeps & ProviderDeps;

/** Registers what OAuth clients and browsers ask of the origin, and registration (docs/oauth.md#protocol). */
export function registerOauth(app: FastifyInstance, deps: OauthDeps): { close: () => Promise<void> } {
  registerDiscovery(app, deps.installation);
  registerRegistration(app, deps);
  return registerProviderProxy(app, deps);
}
