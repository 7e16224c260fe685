import type { Link } from "../../kit/mail/layout.ts";
import type { KindKey } from "../kinds/kinds.ts";

/** The origin of the pages, and the base URL of the API. */
export type Origins = { origin: string; baseUrl: string };

type About = { kind: KindKey; accountId: string; metadata: Record<string, string> };

/** Pages by prefix of a kind; the first match counts. */
const PAGES: [string, string, string][] = [
  ["security.sign_in_new_device", "Your sessions", "/profile/sessions"],
  ["security.password_changed", "Your sessions", "/profile/sessions"],
  ["security.oauth_", "Your applications", "/connected-applications"],
  ["member.invited", "Your invitations", "/profile/invitations"],
];

/** Resources of the API by prefix of a kind; the first match counts. */
const RESOURCES: [string, string, (about: About) => string | undefined][] = [
  ["security.token_", "Your tokens in the API", () => "/me/tokens"],
  ["security.variable_", "The audit log in the API", (about) => accountPath(about, "/audit-events")],
  ["member.joined", "The members in the API", (about) => accountPath(about, "/members")],
  ["member.left", "The members in the API", (about) => accountPath(about, "/members")],
  ["deploy.", "The deployment in the API", deploymentPath],
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
function linkOf(about: About, { origin, baseUrl }: Origins): Link | undefined {
  const { kind, metadata } = about;
  const { url, service } = metadata;
  if (url && (kind === "deploy.ready" || kind === "deploy.recovered"))
    return { label: `Open ${service ?? "the app"}`, url };
  const matches = ([prefix]: readonly [string, ...unknown[]]) => kind.startsWith(prefix);
  const [, pageLabel, page] = PAGES.find(matches) ?? [];
  if (pageLabel && page) return { label: pageLabel, url: origin + page };
  const [, label, pathOf] = RESOURCES.find(matches) ?? [];
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
