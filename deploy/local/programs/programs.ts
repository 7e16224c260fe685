import type { Secrets } from "../data/secrets.ts";
import type { LocalGroups } from "../groups.ts";
import type { PaymentSettings } from "../payments.ts";
import { addonRole, database } from "../postgres/database.ts";
import type { LocalWalls } from "../walls.ts";

/** What the environments of programs are made from. */
export type PlatformContext = {
  secrets: Secrets;
  /** Port of each program, of the app router, and `<name>Grpc` of each service. */
  ports: Record<string, number>;
  /** Where people reach the gateway, without a slash at the end. */
  origin: string;
  /** The address at which the gateway and the router of apps listen. */
  listen: string;
  /** Apps are at https names below it, through a proxy. */
  appsDomain: string | undefined;
  /** Whether a proxy of this machine is in front, which says who asks. */
  behindProxy: boolean;
  natsUrl: string;
  databaseUrl(database: string, role: string, password: string): string;
  /** The data folder, whose disk is watched. */
  dataDir: string;
  deployerDir: string;
  /** Where apps are built and run. */
  appsDir: string;
  walls: LocalWalls;
  groups: LocalGroups;
  /** Where fetched programs are kept. */
  programsDir: string;
  /** How services send mail. */
  mail: { url: string; from: string };
  payments: PaymentSettings;
};

/** A process of the platform: `node <folder>/main.ts`, configured by its environment alone. */
export type Program = {
  name: string;
  /** Relative to the project. */
  folder: string;
  kind: "service" | "gateway";
  env?(context: PlatformContext): Record<string, string>;
};

export const OWNER_EMAIL = "owner@berth.localhost";

/** The sender of mails that are captured. */
export const MAIL_FROM = "Berth <berth@berth.localhost>";

/** The path before all routes of the API. */
export const API_PREFIX = "/v1";

/** All processes of the platform. A new service is one more entry here. */
export const programs: Program[] = [
  {
    name: "identity",
    folder: "services/identity",
    kind: "service",
    env: ({ secrets, origin, mail }) => ({
      BOOTSTRAP_OWNER_EMAIL: OWNER_EMAIL,
      BOOTSTRAP_OWNER_TOKEN: secrets.ownerToken,
      BOOTSTRAP_OWNER_PASSWORD: secrets.ownerPassword,
      PUBLIC_ORIGIN: origin,
      API_PREFIX,
      SMTP_URL: mail.url,
      MAIL_FROM: mail.from,
      ...planSettings(),
    }),
  },
  {
    name: "variables",
    folder: "services/variables",
    kind: "service",
    env: ({ secrets }) => ({ ENCRYPTION_KEYS: secrets.encryptionKeys }),
  },
  {
    name: "deployer",
    folder: "services/deployer",
    kind: "service",
    env: ({
      secrets,
      ports,
      origin,
      listen,
      appsDomain,
      behindProxy,
      databaseUrl,
      deployerDir,
      appsDir,
      walls,
      groups,
      programsDir,
    }) => ({
      DATA_DIR: deployerDir,
      APPS_DIR: appsDir,
      APP_GROUPS: groups.folder ?? "",
      APP_WALLS: walls.missing === undefined ? "on" : "off",
      HIDDEN_PATHS: JSON.stringify(walls.hidden),
      PROGRAMS_DIR: programsDir,
      ROUTER_PORT: String(ports.router),
      ROUTER_HOST: listen,
      APPS_DOMAIN: appsDomain ?? "",
      TRUST_PROXY: behindProxy ? "loopback" : "none",
      PUBLIC_ORIGIN: origin,
      ADDON_POSTGRES_URL: databaseUrl("postgres", addonRole, passwordOf(secrets, addonRole)),
      UPLOAD_KEYS: secrets.uploadKeys,
      SECRET_KEYS: secrets.secretKeys,
      ...planSettings(),
    }),
  },
  {
    name: "notifications",
    folder: "services/notifications",
    kind: "service",
    env: ({ secrets, origin, mail, dataDir, appsDir }) => ({
      PUBLIC_ORIGIN: origin,
      API_PREFIX,
      SMTP_URL: mail.url,
      MAIL_FROM: mail.from,
      WATCHED_FOLDERS: JSON.stringify([dataDir, appsDir]),
      SECRET_KEYS: secrets.secretKeys,
      // Whoever uses the API of this machine also runs it, and tries receivers that run on it too.
      WEBHOOKS_PRIVATE: process.env.WEBHOOKS_PRIVATE || "on",
    }),
  },
  {
    name: "billing",
    folder: "services/billing",
    kind: "service",
    env: ({ origin, payments }) => ({
      PUBLIC_ORIGIN: origin,
      STRIPE_SECRET_KEY: payments.key,
      STRIPE_WEBHOOK_SECRETS: payments.webhookSecrets,
      STRIPE_API_URL: payments.url,
      STRIPE_INSTALLATION: payments.installation,
      STRIPE_TAX: process.env.STRIPE_TAX || "off",
      ...planSettings(),
      PLAN_GRACE_DAYS: process.env.PLAN_GRACE_DAYS || "7",
    }),
  },
  {
    name: "gateway",
    folder: "gateway",
    kind: "gateway",
    env: ({ origin, listen, behindProxy }) => ({
      HOST: listen,
      PUBLIC_ORIGIN: origin,
      API_PREFIX,
      TRUST_PROXY: behindProxy ? "loopback" : "",
    }),
  },
];

/** The database role of each program: role and schema have the program's name. */
export const roles = programs.map(({ name }) => name);

/** Returns a program's whole environment: the machine's, what all programs share, and its own. */
export function environmentOf(program: Program, context: PlatformContext): Record<string, string> {
  const { secrets, ports, natsUrl, databaseUrl } = context;
  const services = programs.filter(({ kind }) => kind === "service");
  const addresses = services.map(({ name }) => [
    `${name.toUpperCase()}_URL`,
    `http://127.0.0.1:${ports[name]}`,
  ]);
  return {
    ...machineEnvironment(),
    DATABASE_URL: databaseUrl(database, program.name, passwordOf(secrets, program.name)),
    NATS_URL: natsUrl,
    PORT: String(ports[program.name]),
    ...(program.kind === "service" && { GRPC_PORT: String(ports[grpcPortOf(program.name)]) }),
    INTERNAL_KEYS: secrets.internalKeys,
    LOG_LEVEL: process.env.LOG_LEVEL || "info",
    ...Object.fromEntries(addresses),
    ...program.env?.(context),
  };
}

export const grpcPortOf = (name: string) => `${name}Grpc`;

function passwordOf(secrets: Secrets, role: string): string {
  return secrets.databasePasswords[role] as string;
}

/** What accounts may do (docs/plans.md#plans), unless the launcher's own environment says otherwise. */
function planSettings(): Record<string, string> {
  const { DEFAULT_TIER, PLAN_QUOTAS } = process.env;
  return { DEFAULT_TIER: DEFAULT_TIER || "free", PLAN_QUOTAS: PLAN_QUOTAS || "off" };
}

const OF_THE_MACHINE =
  /^(PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|TZ|LANG|LC_\w+|XDG_\w+|https?_proxy|no_proxy|all_proxy|SSL_CERT_\w+|NODE_EXTRA_CA_CERTS|npm_config_registry|PIP_\w+|OTEL_\w+)$/i;

/** Settings that the documentation names by their variables, and that have a meaning on one machine. */
const OF_OPERATORS =
  /^(RATE_LIMIT\w+|DOMAINS_\w+|DNS_SERVERS|ADDON_BACKUPS_KEPT|ADDON_PROOFS|PLAN_(BACKUP_DAYS|SIZES|STORAGE)|(DISK|MEMORY)_(WARN|URGENT)_PERCENT|CONSOLE|METRICS_PORT|BUILDS_AT_ONCE|ACCOUNT_REGISTRIES|ALLOWED_REGISTRIES|OAUTH_(ACCESS_TOKEN_SECONDS|ALLOW_CUSTOM_SCHEMES|CLIENT_ID_METADATA|REDIRECT_HOSTS|RESOURCE))$/;

/** From the launcher's own environment: what programs, builds and proxies need, and nothing by accident. */
function machineEnvironment(): Record<string, string> {
  const entries = Object.entries(process.env).filter(
    (entry): entry is [string, string] =>
      (OF_THE_MACHINE.test(entry[0]) || OF_OPERATORS.test(entry[0])) && entry[1] !== undefined,
  );
  return Object.fromEntries(entries);
}
