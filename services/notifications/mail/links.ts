import type { Link } from "../../kit/mail/layout.ts";
import type { KindKey } from "../kinds/kinds.ts";

/** The origin of the pages, the base URL of the API, and that of the console's screens, whose paths are those of the API. */
export type Origins = { origin: string; baseUrl: string; console?: string };

type About = { kind: KindKey; accountId: string; metadata: Record<string, string> };

/** Pages by prefix of a kind; the first match counts. */
const PAGES: [string, string, string][] = [
  ["security.sign_in_new_device", "Your sessions", "/profile/sessions"],
  ["security.password_changed", "Your sessions", "/profile/sessions"],
  ["security.oauth_", "Your applications", "/connected-applications"],
  ["member.invited", "Your invitations", "/profile/invitations"],
];

/** Screens of the console, which have the paths of the API's resources, by prefix of a kind; the first match counts. */
const SCREENS: [string, string, (about: About) => string | undefined][] = [
  ["deploy.", "The deployment", deploymentPath],
  ["domain.", "The service", servicePath],
  ["security.token_", "Your tokens", () => "/me/tokens"],
  ["member.joined", "The members", (about) => accountPath(about, "/members")],
  ["member.left", "The members", (about) => accountPath(about, "/members")],
  ["member.role_changed", "The account", accountPath],
];

/** Resources of the API by prefix of a kind; the first match counts. */
const RESOURCES: [string, string, (about: About) => string | undefined][] = [
  ["deploy.", "The deployment in the API", deploymentPath],
  ["domain.", "The domains in the API", (about) => servicePath(about, "/domains")],
  ["security.token_", "Your tokens in the API", () => "/me/tokens"],
  ["security.variable_", "The audit log in the API", (about) => accountPath(about, "/audit-events")],
  ["member.joined", "The members in the API", (about) => accountPath(about, "/members")],
  ["member.left", "The members in the API", (about) => accountPath(about, "/members")],
  [
    "webhook.",
    "The webhook in the API",
    (about) => accountPath(about, `/webhooks/${about.metadata.webhookId}`),
  ],
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
  if (about.kind.startsWith("billing.")) return billingLinks(about, origins.origin);
  const link = linkOf(about, origins);
  return link ? [link] : [];
}

function billingLinks({ kind, accountId, metadata }: About, origin: string): Link[] {
  const page = `${origin}/billing/${accountId}`;
  const { invoiceId, number } = metadata;
  const [label, below] = INVOICE_PAGES[kind] ?? [];
  const name = number ? `Invoice ${number}` : "The invoice";
  return [
    ...(label && invoiceId
      ? [{ label: `${name}: ${label}`, url: `${page}/invoices/${invoiceId}/${below}` }]
      : []),
    ...(OF_CARD.includes(kind) ? [{ label: "Change the payment method", url: `${page}/portal` }] : []),
    { label: `Billing of ${metadata.account ?? "the account"}`, url: page },
  ];
}

/** Returns a link to the subject of a notification: the app itself, a page, or a resource of the API. */
function linkOf(about: About, { origin, baseUrl, console }: Origins): Link | undefined {
  const { kind, metadata } = about;
  const { url, service } = metadata;
  if (url && (kind === "deploy.ready" || kind === "deploy.recovered"))
    return { label: `Open ${service ?? "the app"}`, url };
  const matches = ([prefix]: readonly [string, ...unknown[]]) => kind.startsWith(prefix);
  const [, pageLabel, page] = PAGES.find(matches) ?? [];
  if (pageLabel && page) return { label: pageLabel, url: origin + page };
  const screen = console ? SCREENS.find(matches) : undefined;
  const [, label, pathOf] = screen ?? RESOURCES.find(matches) ?? [];
  const path = pathOf?.(about);
  return label && path ? { label, url: (screen && console ? console : baseUrl) + path } : undefined;
}

function accountPath({ accountId }: About, below = ""): string | undefined {
  return accountId ? `/accounts/${accountId}${below}` : undefined;
}

function deploymentPath(about: About): string | undefined {
  const { version } = about.metadata;
  return servicePath(about, version && `/deployments/${version}`);
}

function servicePath({ accountId, metadata }: About, below = ""): string | undefined {
  const { projectId, environmentId, service } = metadata;
  if (!projectId || !environmentId || !service) return undefined;
  return `/accounts/${accountId}/projects/${projectId}/environments/${environmentId}/services/${service}${below}`;
}
