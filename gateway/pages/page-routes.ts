import type { FastifyInstance } from "fastify";
import { serveFiles } from "../http/static-text.ts";

/** Paths on the bare origin, and the files of this folder that they serve. */
const FILES: Record<string, string> = {
  "/invitation": "invitation.html",
  "/password-reset": "password-reset.html",
  "/pages/invitation.js": "invitation.js",
  "/pages/password-reset.js": "password-reset.js",
  "/pages/link.js": "link.js",
  "/pages/link.css": "link.css",
};

/**
 * Registers the pages of one-time links. A link's token is in its fragment and so reaches no server
 * (docs/identity.md#invitations).
 */
export function pageRoutes(app: FastifyInstance, prefix: string): Promise<void> {
  return serveFiles(app, import.meta.dirname, FILES, prefix);
}
