import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { serveFiles } from "../http/static-text.ts";
import { type PagesDeps, servePages } from "./kit/serve-pages.ts";
import { consentPages } from "./oauth/consent.ts";
import { loginPages } from "./oauth/login.ts";
import { oauthErrorPages } from "./oauth/oauth-error.ts";
import { connectedApplicationsPages } from "./profile/connected-applications.ts";
import { invitationsPages } from "./profile/invitations.ts";
import { passwordPages } from "./profile/password.ts";
import { profilePages } from "./profile/profile.ts";
import { sessionsPages } from "./profile/sessions.ts";
import { signInPages } from "./sign-in/sign-in.ts";

const PAGES = [
  ...signInPages,
  ...loginPages,
  ...consentPages,
  ...oauthErrorPages,
  ...connectedApplicationsPages,
  ...profilePages,
  ...passwordPages,
  ...sessionsPages,
  ...invitationsPages,
];

/** Paths on the bare origin, and the files of `links/` that they serve. */
const LINK_FILES: Record<string, string> = {
  "/invitation": "invitation.html",
  "/password-reset": "password-reset.html",
  "/pages/invitation.js": "invitation.js",
  "/pages/password-reset.js": "password-reset.js",
  "/pages/link.js": "link.js",
};

/**
 * Registers the pages: those of a browser's session, and those of one-time links, whose token is in the fragment and so
 * reaches no server (docs/identity.md#invitations).
 */
export async function pageRoutes(app: FastifyInstance, deps: PagesDeps): Promise<void> {
  servePages(app, PAGES, deps);
  await serveFiles(app, join(import.meta.dirname, "links"), LINK_FILES, deps.prefix);
  await serveFiles(app, import.meta.dirname, { "/pages/pages.css": "pages.css" }, deps.prefix);
}
