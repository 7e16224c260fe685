import type { Link } from "../../kit/mail/layout.ts";
import type { KindKey } from "../kinds/kinds.ts";

/** The origin of the pages, the base URL of the API, and that of the console's screens, whose paths are those of the API. */
export type Origins = { origin: string; baseUrl: string; console?: string };

type About = { kind: KindKey; accountId: string; metadata: Record<string, string> };

/** Pages by prefix of a kind, where there is no console; the first match counts. */
const PAGES: [string, string, string][] = [
  ["security.sign_in_new_device", "Your sessions", "/profile/sessions"],
  ["security.password_changed", "Your sessions", "/profile/sessions"],
  ["security.oauth_", "Your applications", "/connected-applications"],
  ["member.invited", "Your invitations", "/profile/invitations"],
];

/** Screens of the console, which have the paths of the API's resources, by prefix of a kind; the first match counts. */
const SCREENS: [string, string, (about: About) => string | undefined][] = [
  ["deploy.config_dangling", "The variables", (about) => servicePath(about, "/variables")],
  ["deploy.", "The deployment", deploymentPath],
  ["domain.", "The service", servicePath],
  ["job.", "The run", runPath],
  ["security.sign_in_new_device", "Your sessions", () => "/me/sessions"],
  ["security.password_changed", "Your sessions", () => "/me/sessions"],
  ["security.oauth_", "Your applications", () => "/me/mcp-grants"],
  ["addon.", "The addon", (about) => servicePath(about)],
  ["storage.", "The addon", (about) => servicePath(about)],
  ["backup.", "The backups", (about) => servicePath(about, "/backups")],
  ["security.token_", "Your tokens", () => "/me/tokens"],
  ["security.variable_", "The audit log", (about) => accountPath(about, "/audit-events")],
  ["member.invited", "Your invitations", () => "/me"],
  ["member.joined", "The members", (about) => accountPath(about, "/members")],
  ["member.left", "The members", (about) => accountPath(about, "/members")],
  ["member.role_changed", "The account", accountPath],
  ["webhook.", "The webhook", webhookPath],
  ["node.", "The account", accountPath],
  ["deletion.", "The account", accountPath],
];

/** Screens about compute by kind; all others of billing lead to the plan. */
const OF_COMPUTE: KindKey[] = ["billing.usage_threshold", "billing.credit_exhausted", "billing.spend_limit"];

/** Resources of the API by prefix of a kind; the first match counts. */
const RESOURCES: [string, string, (about: About) => string | undefined][] = [
  ["deploy.", "The deployment in the API", deploymentPath],
  ["domain.", "The domains in the API", (about) => servicePath(about, "/domains")],
  ["job.", "The run in the API", runPath],
  ["addon.", "The addon in the API", (about) => servicePath(about)],
  ["storage.", "The addon in the API", (about) => servicePath(about)],
  ["backup.", "The backups in the API", (about) => servicePath(about, "/backups")],
  ["security.token_", "Your tokens in the API", () => "/me/tokens"],
  ["security.variable_", "The audit log in the API", (about) => accountPath(about, "/audit-events")],
  ["member.joined", "The members in the API", (about) => accountPath(about, "/members")],
  ["member.left", "The members in the API", (about) => accountPath(about, "/members")],
  ["webhook.", "The webhook in the API", webhookPath],
  ["node.", "The account in the API", accountPath],
  ["deletion.", "The account in the API", accountPath],
  ["member.role_changed", "The account in the API", accountPath],
];

/** Pages of an invoice by kind, below the account's billing page. */
const INVOICE_PAGES: Partial<Record<KindKey, [label: string, page: string]>> = {
  "billing.invoice_paid": ["as PDF", "pdf"],
  "billing.payment_failed": ["pay it now", "pay"],
  "billing.payment_action_required": ["confirm the payment", "pay"],
};

/** Kinds that ask for another payment method. */
const OF_CARD: KindKey[] = ["billing.payment_failed", "billing.card_expiring"];

/** Returns links to what a notification is about: pages for people where there are any. */
export function linksOf(about: About, origins: Origins): Link[] {
  if (about.kind.startsWith("billing.")) return billingLinks(about, origins);
  const link = linkOf(about, origins);
  return link ? [link] : [];
}

function billingLinks({ kind, accountId, metadata }: About, { origin, console }: Origins): Link[] {
  const page = `${origin}/billing/${accountId}`;
  const screen = OF_COMPUTE.includes(kind) ? "compute-usage" : "subscription";
  const { invoiceId, number } = metadata;
  const [label, below] = INVOICE_PAGES[kind] ?? [];
  const name = number ? `Invoice ${number}` : "The invoice";
  return [
    ...(label && invoiceId
      ? [{ label: `${name}: ${label}`, url: `${page}/invoices/${invoiceId}/${below}` }]
      : []),
    ...(OF_CARD.includes(kind) ? [{ label: "Change the payment method", url: `${page}/portal` }] : []),
    {
      label: `Billing of ${metadata.account ?? "the account"}`,
      url: console ? `${console}/accounts/${accountId}/${screen}` : page,
    },
  ];
}

/** Returns a link to the subject of a notification: the app itself, a page, or a resource of the API. */
function linkOf(about: About, { origin, baseUrl, console }: Origins): Link | undefined {
  const { kind, metadata } = about;
  const { url, service } = metadata;
  if (url && (kind === "deploy.ready" || kind === "deploy.recovered"))
    return { label: `Open ${service ?? "the app"}`, url };
  const matches = ([prefix]: readonly [string, ...unknown[]]) => kind.startsWith(prefix);
  const screen = console ? SCREENS.find(matches) : undefined;
  const [, pageLabel, page] = PAGES.find(matches) ?? [];
  if (!screen && pageLabel && page) return { label: pageLabel, url: origin + page };
  const [, label, pathOf] = screen ?? RESOURCES.find(matches) ?? [];
  const path = pathOf?.(about);
  return label && path ? { label, url: (screen && console ? console : baseUrl) + path } : undefined;
}

function accountPath({ accountId }: About, below = ""): string | undefined {
  return accountId ? `/accounts/${accountId}${below}` : undefined;
}

function webhookPath(about: About): string | undefined {
  return accountPath(about, `/webhooks/${about.metadata.webhookId}`);
}

function deploymentPath(about: About): string | undefined {
  const { version } = about.metadata;
  return servicePath(about, version && `/deployments/${version}`);
}

function runPath(about: About): string | undefined {
  return servicePath(about, `/runs/${about.metadata.runId}`);
}

function servicePath({ accountId, metadata }: About, below = ""): string | undefined {
  const { projectId, environmentId, service } = metadata;
  if (!projectId || !environmentId || !service) return undefined;
  return `/accounts/${accountId}/projects/${projectId}/environments/${environmentId}/services/${service}${below}`;
}
