import { createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { lazyScreen, Missing, MissingScreen } from "./design/lazy-screen.tsx";
import { Failure, Loading } from "./design/state.tsx";
import { Entrance } from "./screens/frame/entrance.tsx";
import { Frame } from "./screens/frame/frame.tsx";
import { NotFound } from "./screens/frame/not-found.tsx";

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound });

const entrance = createRoute({ getParentRoute: () => root, path: "/", component: Entrance });

const home = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId",
  component: lazyScreen(() => import("./screens/home/home.tsx"), "Home"),
});

const members = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId/members",
  component: lazyScreen(() => import("./screens/members/members.tsx"), "Members"),
});

const grants = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId/grants",
  component: lazyScreen(() => import("./screens/grants/account-grants.tsx"), "AccountGrants"),
});

const registries = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId/registries",
  component: lazyScreen(() => import("./screens/registries/registries.tsx"), "Registries"),
});

const DATE = /^\d{4}-\d{2}-\d{2}$/;

type AuditFilter = { actor?: string | undefined; action?: string | undefined; since?: string | undefined };

const keptBackups = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId/backups",
  component: lazyScreen(() => import("./screens/backups/kept-backups.tsx"), "KeptBackups"),
});

const auditEvents = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId/audit-events",
  // What is undefined replaces what the address has, which would stay where it is left out.
  validateSearch: ({ actor, action, since }: AuditFilter): AuditFilter => ({
    actor: typeof actor === "string" ? actor : undefined,
    action: typeof action === "string" ? action : undefined,
    since:
      typeof since === "string" && DATE.test(since) && !Number.isNaN(Date.parse(since)) ? since : undefined,
  }),
  component: lazyScreen(() => import("./screens/audit/audit.tsx"), "AuditLog"),
});

const profile = createRoute({
  getParentRoute: () => root,
  path: "/me",
  component: lazyScreen(() => import("./screens/me/profile.tsx"), "Profile"),
});

const sessions = createRoute({
  getParentRoute: () => root,
  path: "/me/sessions",
  component: lazyScreen(() => import("./screens/me/sessions.tsx"), "Sessions"),
});

const applications = createRoute({
  getParentRoute: () => root,
  path: "/me/mcp-grants",
  component: lazyScreen(() => import("./screens/me/applications.tsx"), "Applications"),
});

const tokens = createRoute({
  getParentRoute: () => root,
  path: "/me/tokens",
  component: lazyScreen(() => import("./screens/tokens/tokens.tsx"), "Tokens"),
});

const billing = createRoute({
  getParentRoute: () => root,
  id: "billing",
  component: lazyScreen(() => import("./screens/billing/layout.tsx"), "BillingLayout"),
});

const RETURNED = ["subscribed", "not-subscribed", "portal-closed"];

const plan = createRoute({
  getParentRoute: () => billing,
  path: "/accounts/$accountId/subscription",
  // Where the payment provider's pages lead back to.
  validateSearch: ({ returned }: { returned?: string }) =>
    returned !== undefined && RETURNED.includes(returned) ? { returned } : {},
  component: lazyScreen(() => import("./screens/billing/plan.tsx"), "Plan"),
});

const usage = createRoute({
  getParentRoute: () => billing,
  path: "/accounts/$accountId/compute-usage",
  component: lazyScreen(() => import("./screens/billing/usage.tsx"), "Usage"),
});

const statements = createRoute({
  getParentRoute: () => billing,
  path: "/accounts/$accountId/statements",
  component: lazyScreen(() => import("./screens/billing/statements.tsx"), "Statements"),
});

const statement = createRoute({
  getParentRoute: () => billing,
  path: "/accounts/$accountId/statements/$month",
  component: lazyScreen(() => import("./screens/billing/statement.tsx"), "StatementScreen"),
});

const invoices = createRoute({
  getParentRoute: () => billing,
  path: "/accounts/$accountId/invoices",
  component: lazyScreen(() => import("./screens/billing/invoices.tsx"), "Invoices"),
});

const webhooks = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId/webhooks",
  component: lazyScreen(() => import("./screens/webhooks/webhooks.tsx"), "Webhooks"),
});

const webhook = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId/webhooks/$webhookId",
  component: lazyScreen(() => import("./screens/webhooks/webhook.tsx"), "WebhookScreen"),
});

const feed = createRoute({
  getParentRoute: () => root,
  path: "/notifications",
  validateSearch: ({ unread }: { unread?: boolean }) => (unread === true ? { unread } : {}),
  component: lazyScreen(() => import("./screens/notifications/feed.tsx"), "Feed"),
});

const preferences = createRoute({
  getParentRoute: () => root,
  path: "/me/notification-prefs",
  component: lazyScreen(() => import("./screens/notifications/preferences.tsx"), "Preferences"),
});

// The paths are those of the API, so that whoever knows one address knows the other.
const environment = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId/projects/$projectId/environments/$environmentId",
  component: lazyScreen(() => import("./screens/environment/layout.tsx"), "EnvironmentLayout"),
});

const services = createRoute({
  getParentRoute: () => environment,
  path: "/",
  validateSearch: ({ view }: { view?: "canvas" }) => (view === "canvas" ? { view } : {}),
  component: lazyScreen(() => import("./screens/environment/services.tsx"), "Services"),
});

const service = createRoute({
  getParentRoute: () => environment,
  path: "/services/$service",
  component: lazyScreen(() => import("./screens/service/layout.tsx"), "ServiceLayout"),
});

const deployments = createRoute({
  getParentRoute: () => service,
  path: "/",
  validateSearch: ({ deploy, upload }: { deploy?: boolean; upload?: boolean }) => ({
    ...(deploy === true && { deploy }),
    ...(upload === true && { upload }),
  }),
  component: lazyScreen(() => import("./screens/service/deployments.tsx"), "Deployments"),
});

const deployment = createRoute({
  getParentRoute: () => service,
  path: "/deployments/$version",
  component: lazyScreen(() => import("./screens/service/deployment.tsx"), "DeploymentScreen"),
});

const logs = createRoute({
  getParentRoute: () => service,
  path: "/logs",
  component: lazyScreen(() => import("./screens/logs/logs.tsx"), "Logs"),
});

const runs = createRoute({
  getParentRoute: () => service,
  path: "/runs",
  component: lazyScreen(() => import("./screens/service/runs.tsx"), "Runs"),
});

const run = createRoute({
  getParentRoute: () => service,
  path: "/runs/$runId",
  component: lazyScreen(() => import("./screens/service/run.tsx"), "RunScreen"),
});

const variables = createRoute({
  getParentRoute: () => service,
  path: "/variables",
  component: lazyScreen(() => import("./screens/variables/variables.tsx"), "Variables"),
});

const backups = createRoute({
  getParentRoute: () => service,
  path: "/backups",
  component: lazyScreen(() => import("./screens/backups/backups.tsx"), "Backups"),
});

const settings = createRoute({
  getParentRoute: () => service,
  path: "/settings",
  component: lazyScreen(() => import("./screens/settings/settings.tsx"), "Settings"),
});

export const router = createRouter({
  basepath: "/console",
  routeTree: root.addChildren([
    entrance,
    home,
    members,
    grants,
    registries,
    keptBackups,
    auditEvents,
    profile,
    sessions,
    applications,
    tokens,
    billing.addChildren([plan, usage, statements, statement, invoices]),
    webhooks,
    webhook,
    feed,
    preferences,
    environment.addChildren([
      services,
      service.addChildren([deployments, deployment, logs, runs, run, variables, backups, settings]),
    ]),
  ]),
  defaultPreload: "intent",
  defaultPendingComponent: Loading,
  defaultErrorComponent: ({ error, reset }) =>
    error instanceof MissingScreen ? <Missing /> : <Failure error={error} retry={reset} />,
  defaultNotFoundComponent: NotFound,
});

declare module "@tanstack/react-router" {
  // biome-ignore lint/style/useConsistentTypeDefinitions: an interface is merged with the library's own.
  interface Register {
    router: typeof router;
  }
}
