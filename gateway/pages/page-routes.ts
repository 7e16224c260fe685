import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { serveFiles, serveText } from "../http/static-text.ts";
import { accountPages } from "./billing/account.ts";
import { changePages } from "./billing/changes.ts";
import { planChangePages } from "./billing/plan-changes.ts";
import { returnedPages } from "./billing/returned.ts";
import { type PagesDeps, servePages } from "./kit/serve-pages.ts";
import { LINK_PAGES, linkDocument } from "./links/link-page.ts";
import { consentPages } from "./oauth/consent.ts";
import { devicePages } from "./oauth/device.ts";
import { loginPages } from "./oauth/login.ts";
import { oauthErrorPages } from "./oauth/oauth-error.ts";
import { connectedApplicationsPages } from "./profile/connected-applications.ts";
import { invitationsPages } from "./profile/invitations.ts";
import { passwordPages } from "./profile/password.ts";
import { profilePages } from "./profile/profile.ts";
import { sessionsPages } from "./profile/sessions.ts";
import { signInPages } from "./sign-in/sign-in.ts";
import { unsubscribePages } from "./unsubscribing/unsubscribe.ts";

const PAGES = [
  ...signInPages,
  ...loginPages,
  ...consentPages,
  ...devicePages,
  ...oauthErrorPages,
  ...connectedApplicationsPages,
  ...profilePages,
  ...passwordPages,
  ...sessionsPages,
  ...invitationsPages,
  ...unsubscribePages,
  ...returnedPages,
  ...accountPages,
  ...changePages,
  ...planChangePages,
];

/** Paths on the bare origin, and the scripts of `links/` that they serve. */
const SCRIPTS: Record<string, string> = {
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
  for (const page of LINK_PAGES) {
    const { text } = linkDocument(page, deps.prefix);
    serveText(app, `/${page.name}`, `${page.name}.html`, () => text);
  }
  await serveFiles(app, join(import.meta.dirname, "links"), SCRIPTS);
  await serveFiles(app, import.meta.dirname, { "/pages/pages.css": "pages.css" });
}
