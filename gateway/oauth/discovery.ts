import type { FastifyInstance } from "fastify";
import { CORS_HEADERS } from "../http/cors.ts";
import {
  openidConfiguration,
  type Place,
  RESOURCE_METADATA,
  resourceMetadata,
  serverMetadata,
} from "./metadata.ts";

/** Clients read it for each connection; an operator who moves the origin waits no longer than this. */
const CACHED_SECONDS = 60;

/**
 * Registers the documents by which clients find the authorization server and its endpoints: the server's, and the
 * API's as a protected resource, at the root and with the path of a resource on this origin behind it.
 */
export function registerDiscovery(app: FastifyInstance, place: () => Place): void {
  const serve = (path: string, document: (place: Place) => object) =>
    app.get(path, { config: { cors: true } }, (request, reply) => {
      reply
        .headers({
          // Always, as caches may keep it for the next script.
          ...CORS_HEADERS,
          "content-type": "application/json; charset=utf-8",
          "cache-control": `public, max-age=${CACHED_SECONDS}`,
          "x-content-type-options": "nosniff",
          "x-request-id": request.id,
        })
        .send(JSON.stringify(document(place())));
    });
  serve("/.well-known/oauth-authorization-server", serverMetadata);
  serve("/.well-known/openid-configuration", openidConfiguration);
  serve(RESOURCE_METADATA, resourceMetadata);
  // Its path is known before the gateway listens, its origin maybe not.
  const { pathname } = new URL(place().resource, "http://unknown");
  if (pathname !== "/") serve(RESOURCE_METADATA + pathname, resourceMetadata);
}
