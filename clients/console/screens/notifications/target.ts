import type { Notification } from "../../../typescript/src/index.ts";

type About = Pick<Notification, "kind" | "accountId" | "metadata">;

/** The paths of screens by prefix of a kind; the first match counts. */
const SCREENS: [string, (about: About) => string | undefined][] = [
  ["deploy.config_dangling", (about) => serviceScreen(about, "/variables")],
  [
    "deploy.",
    (about) => serviceScreen(about, about.metadata.version && `/deployments/${about.metadata.version}`),
  ],
  ["domain.", (about) => serviceScreen(about)],
  ["addon.", (about) => serviceScreen(about)],
  ["storage.", (about) => serviceScreen(about)],
  ["backup.", (about) => serviceScreen(about, "/backups")],
  ["job.", (about) => serviceScreen(about, `/runs/${about.metadata.runId}`)],
  ["billing.usage_threshold", (about) => accountScreen(about, "/compute-usage")],
  ["billing.credit_exhausted", (about) => accountScreen(about, "/compute-usage")],
  ["billing.spend_limit", (about) => accountScreen(about, "/compute-usage")],
  ["billing.invoice_paid", (about) => accountScreen(about, "/invoices")],
  ["billing.payment_", (about) => accountScreen(about, "/invoices")],
  ["billing.", (about) => accountScreen(about, "/subscription")],
  ["deletion.", (about) => accountScreen(about)],
  ["member.invited", () => "/me"],
  ["member.joined", (about) => accountScreen(about, "/members")],
  ["member.left", (about) => accountScreen(about, "/members")],
  ["member.role_changed", (about) => accountScreen(about)],
  ["security.sign_in_new_device", () => "/me/sessions"],
  ["security.password_changed", () => "/me/sessions"],
  ["security.oauth_", () => "/me/mcp-grants"],
  ["security.token_", () => "/me/tokens"],
  ["security.variable_", (about) => accountScreen(about, "/audit-events")],
  ["node.", (about) => accountScreen(about)],
  ["webhook.", (about) => accountScreen(about, `/webhooks/${about.metadata.webhookId}`)],
];

/** Returns the screen that a notification leads to; undefined where there is none, as after one was removed. */
export function targetOf(about: About): string | undefined {
  const [, find] = SCREENS.find(([prefix]) => about.kind.startsWith(prefix)) ?? [];
  return find?.(about);
}

function accountScreen({ accountId }: Pick<About, "accountId">, below = ""): string | undefined {
  return accountId ? `/accounts/${accountId}${below}` : undefined;
}

function serviceScreen({ accountId, metadata }: About, below = ""): string | undefined {
  const { projectId, environmentId, service } = metadata;
  if (!projectId || !environmentId || !service) return accountScreen({ accountId });
  const environment = `/accounts/${accountId}/projects/${projectId}/environments/${environmentId}`;
  return `${environment}/services/${encodeURIComponent(service)}${below}`;
}
