/** Folders and files of a part, from top to bottom: each line imports only from lines below it. */
type Floors = { floors: string[]; exceptions?: Record<string, string> };

/**
 * The order inside each part. A name is a folder of the part or a file beside them, without `.ts`. `exceptions` are
 * imports that go up or stay on a floor, as "from → to", each with its reason; the list may only shrink.
 */
export const FOLDER_ORDER: Record<string, Floors> = {
  "deploy/backup": {
    floors: ["backup restore", "backups open", "folder images uploads", "bucket config database events"],
  },
  "deploy/cluster": { floors: ["ingress main", "run", "images", "node", "commands lock", "settings"] },
  "deploy/database": { floors: ["prepare", "provision"] },
  "deploy/images": { floors: ["main", "images", "engine sbom"] },
  "deploy/local": {
    floors: [
      "main",
      "backup platform",
      "programs",
      "mail nats payments postgres terminal",
      "data",
      "processes",
      "failure",
    ],
  },
  gateway: {
    floors: [
      "main",
      "docs oauth requests",
      "pages streams uploads webhooks",
      "auth limits upstream",
      "config http routing",
      "metrics tasks upstreams",
    ],
  },
  "services/deployer": {
    floors: [
      "main",
      "api reconcile",
      "builds engine events",
      "config releases",
      "addons builder deployments",
      "catalog runtime",
      "accounts images kube queue store usage variables",
      "secrets shared sources tasks terms",
    ],
  },
  "services/kit": {
    floors: [
      "mail plans replay",
      "process",
      "events idempotency",
      "postgres",
      "rpc",
      "aead bearer-token coalesce html ids keyed-mutex lanes lines-of log mac network retry sizes tasks telemetry",
    ],
  },
};
