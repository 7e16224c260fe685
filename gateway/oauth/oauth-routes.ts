import type { Client } from "@connectrpc/connect";
import type { FastifyInstance } from "fastify";
import type { InternalService } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import type { Logger } from "../../services/kit/log.ts";
import type { RateLimiter } from "../limits/rate-limiter.ts";
import { registerDiscovery } from "./discovery.ts";
import type { Place } from "./metadata.ts";
import { registerProviderProxy } from "./provider-proxy.ts";
import { registerRegistration } from "./registration.ts";

export type OauthDeps = {
  /** Where the provider's public endpoints are, within the installation. */
  providerUrl: string;
  identity: Client<typeof InternalService>;
  /** The path before all routes of the API. */
  prefix: string;
  /** Known once the gateway listens. */
  place: () => Place;
  limiter: RateLimiter;
  tracing: boolean;
  log: Logger;
};

/** Registers what OAuth clients and browsers ask of the origin, and registration (docs/oauth.md#protocol). */
export function registerOauth(app: FastifyInstance, deps: OauthDeps): { close: () => Promise<void> } {
  registerDiscovery(app, deps.place);
  registerRegistration(app, deps);
  return registerProviderProxy(app, deps);
}
