import type { Link } from "../../kit/mail/layout.ts";
import type { KindKey } from "../catalog/kinds.ts";

/** The origin of the pages, and the base URL of the API. */
export type Origins = { origin: string; baseUrl: string };

type About = { kind: KindKey; accountId: string; metadata: Record<string, string> };

/** Pages by the start of a kind, the first that fits. */
const PAGES: [string, string, string][] = [
  ["security.sign_in_new_device", "Your sessions", "/profile/sessions"],
  ["security.password_changed", "Your sessions", "/profile/sessions"],
  ["security.oauth_", "Your applications", "/connected-applications"],
  ["member.invited", "Your invitations", "/profile/invitations"],
];

/** Resources of the API by the start of a kind, the first that fits. */
const RESOURCES: [string, string, (about: About) => string | undefined][] = [
  ["security.token_", "Your tokens in the API", () => "/me/tokens"],
  ["security.variable_", "The audit log in the API", (about) => accountPath(about, "/audit-events")],
  ["member.joined", "The members in the API", (about) => accountPath(about, "/members")],
  ["member.left", "The members in the API", (about) => accountPath(about, "/members")],
  ["deploy.", "The deployment in the API", deploymentPath],
  ["billing.", "The account in the API", accountPath],
  ["deletion.", "The account in the API", accountPath],
  ["member.role_changed", "The account in the API", accountPath],
];

/** Returns where the thing that a notification is about can be seen: the app itself, a page, or a resource of the API. */
export function linkOf(about: About, { origin, baseUrl }: Origins): Link | undefined {
  const { kind, metadata } = about;
  const { url, service } = metadata;
  if (url && (kind === "deploy.ready" || kind === "deploy.recovered"))
    return { label: `Open ${service ?? "the app"}`, url };
  const fits = ([start]: readonly [string, ...unknown[]]) => kind.startsWith(start);
  const [, pageLabel, page] = PAGES.find(fits) ?? [];
  if (pageLabel && page) return { label: pageLabel, url: origin + page };
  const [, label, pathOf] = RESOURCES.find(fits) ?? [];
  const path = pathOf?.(about);
  return label && path ? { label, url: baseUrl + path } : undefined;
}

function accountPath({ accountId }: About, below = ""): string | undefined {
  return accountId ? `/accounts/${accountId}${below}` : undefined;
}

function deploymentPath({ accountId, metadata }: About): string | undefined {
  const { projectId, environmentId, service, version } = metadata;
  if (!projectId || !environmentId || !service) return undefined;
  const path = `/accounts/${accountId}/projects/${projectId}/environments/${environmentId}/services/${service}`;
  return version ? `${path}/deployments/${version}` : path;
}
