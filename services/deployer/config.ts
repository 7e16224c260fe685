import { isAbsolute } from "node:path";
import { planFields } from "../kit/plans.ts";
import {
  type ConfigOf,
  checked,
  choice,
  type Field,
  integer,
  isObject,
  json,
  keys,
  optionalText,
  port,
  serviceFields,
  text,
  url,
} from "../kit/process/config.ts";
import { kubernetesAddonFields } from "./addons/kubernetes/config.ts";
import { jobBuilderFields } from "./builder/job/config.ts";
import { domainFields, kubernetesDomainFields } from "./domains/config.ts";
import { allowedRegistries } from "./images/allowed-registries.ts";
import { imageDigests } from "./images/digests/resolve-digest.ts";
import { placementFields } from "./kube/pods/placement.ts";
import { kubernetesRuntimeFields } from "./runtime/kubernetes/config.ts";
import { lokiFields } from "./runtime/kubernetes/logs/config.ts";
import { isAppsDomain } from "./runtime/local/routing/apps-domain.ts";
import { defaultUploadLimits, type UploadLimits } from "./store/disk/upload-limits.ts";
import { s3Fields } from "./store/s3/config.ts";

/** The size of its pool. */
export const POOL = 16;
/** The most connections to the database: besides the pool, the sessions of the relay, of streams, of the leases and of the election. */
export const connections = POOL + 4;

const common = {
  ...serviceFields,
  ...planFields,
  variablesUrl: url("VARIABLES_URL", ["http", "https"]),
  /** Seal addon passwords, sign archive refs. */
  secretKeys: keys("SECRET_KEYS"),
  /** Where deployed images may come from. */
  allowedRegistries,
  /** Whether accounts may have logins for registries of their own. */
  accountRegistries: choice("ACCOUNT_REGISTRIES", ["on", "off"] as const, "on"),
  /** How many nightly backups of an addon are kept; with 0 none is made. */
  addonBackupsKept: integer("ADDON_BACKUPS_KEPT", { min: 0, fallback: 7 }),
  /** Whether one backup a night is restored to the side. */
  addonProofs: choice("ADDON_PROOFS", ["on", "off"] as const, "on"),
};

/** The environment of a deployer that runs everything on this machine (ENGINE=local). */
export const fields = {
  ...common,
  ...domainFields,
  engine: engine("local"),
  /** Folder of uploads and addons, and unless APPS_DIR is another, of builds and running apps. */
  dataDir: text("DATA_DIR"),
  /** A folder of its own for builds and running apps: tools look for packages and settings in all folders above it. */
  appsDir: optionalText("APPS_DIR"),
  /** Whether apps and builds are run behind walls (docs/one-machine-proxy.md#walls). */
  appWalls: choice("APP_WALLS", ["on", "off"] as const, "off"),
  /** The folder of control groups that hold apps and runs to their sizes (docs/one-machine-proxy.md#sizes). */
  appGroups: optionalText("APP_GROUPS"),
  /** What is hidden behind them besides DATA_DIR and APPS_DIR: a list of absolute paths. */
  hiddenPaths: json<string[]>("HIDDEN_PATHS", [], isPaths, "a list of absolute paths"),
  /** Port of all apps, which differ by host name; 0 takes a free one. */
  routerPort: port("ROUTER_PORT", 0),
  /** The address at which the router of apps listens. */
  routerHost: text("ROUTER_HOST", "127.0.0.1"),
  /** Apps are at https names below it, to which a proxy forwards; without it, at names below localhost and the port. */
  appsDomain: checked("APPS_DOMAIN", isAppsDomain, "must be a host name such as apps.example.com"),
  /** Whether proxies on this machine say which client asks the router, and by which scheme. */
  trustProxy: choice("TRUST_PROXY", ["loopback", "none"] as const, "none"),
  /** Public origin of the gateway; upload URLs begin with it. */
  publicOrigin: url("PUBLIC_ORIGIN", ["http", "https"]),
  /** Administrator's URL of the PostgreSQL server for the databases of addons. */
  addonPostgresUrl: url("ADDON_POSTGRES_URL", ["postgres", "postgresql"]),
  buildsAtOnce: buildsAtOnce(2),
  /** Folder for programs that are fetched because they are not on the PATH; without it none is fetched. */
  programsDir: optionalText("PROGRAMS_DIR"),
  /** Sign upload URLs. */
  uploadKeys: keys("UPLOAD_KEYS"),
  /** Overrides of `defaultUploadLimits`. */
  uploadLimits: json<Partial<UploadLimits>>(
    "UPLOAD_LIMITS",
    {},
    isUploadLimits,
    "an object of positive numbers",
  ),
};

/** The environment of a deployer that runs everything on a cluster (ENGINE=kubernetes). */
export const kubernetesFields = {
  ...common,
  engine: engine("kubernetes"),
  buildsAtOnce: buildsAtOnce(10),
  imageDigests,
  ...kubernetesRuntimeFields,
  ...kubernetesDomainFields,
  ...lokiFields,
  ...jobBuilderFields,
  ...placementFields,
  ...s3Fields,
  ...kubernetesAddonFields,
};

function isPaths(value: unknown): boolean {
  return Array.isArray(value) && value.every((one) => typeof one === "string" && isAbsolute(one));
}

function isUploadLimits(value: unknown): boolean {
  const isLimit = ([name, limit]: [string, unknown]) =>
    name in defaultUploadLimits && typeof limit === "number" && limit > 0;
  return isObject(value) && Object.entries(value).every(isLimit);
}

export type LocalConfig = ConfigOf<typeof fields>;
export type KubernetesConfig = ConfigOf<typeof kubernetesFields>;
export type Config = LocalConfig | KubernetesConfig;

/** How many builds run at once in the installation, whichever of its deployers began them. */
function buildsAtOnce(fallback: number): Field<number> {
  return integer("BUILDS_AT_ONCE", { min: 1, fallback });
}

/** The engine that the other fields are for: `local` unless ENGINE is set. */
function engine<T extends "local" | "kubernetes">(own: T): Field<T> {
  return {
    name: "ENGINE",
    parse(given = "local") {
      if (given !== own) throw new Error("must be local or kubernetes");
      return own;
    },
  };
}
