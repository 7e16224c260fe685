/** Folders and files of a part, from top to bottom: each line imports only from lines below it. */
type Floors = { floors: string[]; exceptions?: Record<string, string> };

/**
 * The order inside each part. A name is a folder of the part or a file beside them, without `.ts`. `exceptions` are
 * imports that go up or stay on a floor, as "from → to", each with its reason; the list may only shrink.
 */
export const FOLDER_ORDER: Record<string, Floors> = {
  "clients/cli": {
    floors: [
      "docs main",
      "run",
      "help",
      "registry",
      "commands",
      "command option-values",
      "context",
      "project report session",
      "pack terminal",
      "description failure version",
    ],
  },
  "clients/console": {
    floors: ["main", "router", "screens", "build design", "live", "session", "texts"],
  },
  "deploy/backup": {
    floors: ["backup restore", "backups open", "folder images uploads", "bucket config database events"],
  },
  "deploy/cluster": {
    floors: ["ingress main", "operator run", "images", "node", "commands lock", "settings"],
  },
  "deploy/database": { floors: ["prepare", "provision"] },
  "deploy/images": { floors: ["main", "images", "engine sbom", "components"] },
  "deploy/local": {
    floors: [
      "main",
      "backup platform",
      "programs",
      "mail nats payments postgres terminal",
      "data",
      "console groups processes walls",
      "failure",
    ],
  },
  "deploy/release": {
    floors: ["main", "make", "parts publish", "image", "source", "run settings tar"],
  },
  "deploy/stripe-simulator": {
    floors: [
      "start",
      "control server",
      "checkout portal",
      "subscriptions",
      "collection",
      "invoices",
      "catalog customers events pages",
      "http state",
    ],
  },
  gateway: {
    floors: [
      "main",
      "sweep",
      "mcp",
      "docs oauth requests tunnels",
      "console pages streams uploads webhooks",
      "auth limits upstream",
      "config http routing",
      "metrics tasks upstreams",
    ],
  },
  "services/billing": {
    floors: [
      "agreement-main check-main main refunds-main seed-main",
      "webhook",
      "api events sync",
      "checkout disputes plan-change",
      "cancellation coupons seats",
      "accounts metering refunds statements",
      "invoices schedule set-up subscription usage",
      "config pricing suspension",
      "due",
      "money stripe tasks",
    ],
  },
  "services/deployer": {
    floors: [
      "main",
      "api reconcile",
      "backups jobs",
      "runs",
      "builds engine events",
      "config releases",
      "addons builder deployments domains metrics suspension",
      "projects runtime",
      "accounts due images kube store usage variables",
      "secrets shared sources tasks terms",
    ],
  },
  "services/identity": {
    floors: [
      "main",
      "config internal mail sweep",
      "bootstrap invitations oauth sign-in",
      "accounts passwords",
      "tokens",
      "attempts audit grants installation links tasks users",
    ],
  },
  "services/kit": {
    floors: [
      "mail plans replay",
      "process",
      "events idempotency",
      "postgres streams",
      "rpc",
      "failures",
      "concurrency crypto html ids lines-of log network sizes tasks telemetry",
    ],
  },
  "services/notifications": {
    floors: [
      "main",
      "capacity events feed unsubscribing",
      "mail notices",
      "preferences",
      "digests",
      "incidents recipients retention",
      "webhooks",
      "config kinds tasks",
    ],
  },
  "services/variables": {
    floors: [
      "main",
      "api events rotate",
      "follow writes",
      "aliases resolve",
      "addons config rows",
      "scopes seal tasks",
    ],
  },
};
