import type { FastifyInstance } from "fastify";
import { CORS_HEADERS } from "../http/cors.ts";
import {
  type Installation,
  MCP_PATH,
  openidConfiguration,
  RESOURCE_METADATA,
  resourceMetadata,
  serverMetadata,
  toolsMetadata,
} from "./metadata.ts";

/** Clients read it for each connection; an operator who moves the origin waits no longer than this. */
const CACHED_SECONDS = 60;

/**
 * Registers the documents by which clients find the authorization server and its endpoints: the server's, the API's as a
 * protected resource, at the root and with the path of a resource on this origin behind it, and that of the tools.
 */
export function registerDiscovery(app: FastifyInstance, installation: () => Installation): void {
  const serve = (path: string, document: (installation: Installation) => object) =>
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
        .send(JSON.stringify(document(installation())));
    });
  serve("/.well-known/oauth-authorization-server", serverMetadata);
  serve("/.well-known/openid-configuration", openidConfiguration);
  serve(RESOURCE_METADATA, resourceMetadata);
  serve(RESOURCE_METADATA + MCP_PATH, toolsMetadata);
  // Its path is known before the gateway listens, its origin maybe not.
  const { pathname } = new URL(installation().resource, "http://unknown");
  if (pathname !== "/" && pathname !== MCP_PATH) serve(RESOURCE_METADATA + pathname, resourceMetadata);
}
