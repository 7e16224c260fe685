import type { Secrets } from "../data/secrets.ts";
import { addonRole, database } from "../postgres/database.ts";

/** What the programs need to know of each other and of the servers. */
export type Surroundings = {
  secrets: Secrets;
  /** Port of each program, of the app router, and `<name>Grpc` of each service. */
  ports: Record<string, number>;
  /** Where the gateway answers, without a slash at the end. */
  origin: string;
  natsUrl: string;
  databaseUrl(database: string, role: string, password: string): string;
  deployerDir: string;
  /** Where programs are kept that were fetched. */
  programsDir: string;
};

/** A process of the platform: `node <folder>/main.ts`, configured by its environment alone. */
export type Program = {
  name: string;
  /** In the project. */
  folder: string;
  kind: "service" | "gateway";
  env?(around: Surroundings): Record<string, string>;
};

export const ownerEmail = "owner@berth.localhost";

/** All processes of the platform. A new service is one more entry here. */
export const programs: Program[] = [
  {
    name: "identity",
    folder: "services/identity",
    kind: "service",
    env: ({ secrets, origin }) => ({
      BOOTSTRAP_OWNER_EMAIL: ownerEmail,
      BOOTSTRAP_OWNER_TOKEN: secrets.ownerToken,
      BOOTSTRAP_OWNER_PASSWORD: secrets.ownerPassword,
      PUBLIC_ORIGIN: origin,
      ...mailEnvironment(),
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
    env: ({ secrets, ports, origin, databaseUrl, deployerDir, programsDir }) => ({
      DATA_DIR: deployerDir,
      PROGRAMS_DIR: programsDir,
      ROUTER_PORT: String(ports.router),
      PUBLIC_ORIGIN: origin,
      ADDON_POSTGRES_URL: databaseUrl("postgres", addonRole, passwordOf(secrets, addonRole)),
      UPLOAD_KEYS: secrets.uploadKeys,
      SECRET_KEYS: secrets.secretKeys,
    }),
  },
  {
    name: "gateway",
    folder: "gateway",
    kind: "gateway",
    env: ({ origin }) => ({ PUBLIC_ORIGIN: origin }),
  },
];

/** The role of each program in the database: it has the program's name, and so has its schema. */
export const roles = programs.map(({ name }) => name);

/** The whole environment of a program: what the machine needs, what all programs share, what is its own. */
export function environmentOf(program: Program, around: Surroundings): Record<string, string> {
  const { secrets, ports, natsUrl, databaseUrl } = around;
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
    ...program.env?.(around),
  };
}

/** Of the launcher's own environment, for the one program that sends mail. */
function mailEnvironment(): Record<string, string> {
  const { SMTP_URL = "", MAIL_FROM = "" } = process.env;
  return { SMTP_URL, MAIL_FROM };
}

export const grpcPortOf = (name: string) => `${name}Grpc`;

function passwordOf(secrets: Secrets, role: string): string {
  return secrets.databasePasswords[role] as string;
}

/** From the launcher's own environment: what programs, builds and proxies need, and nothing by accident. */
function machineEnvironment(): Record<string, string> {
  const wanted =
    /^(PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|TZ|LANG|LC_\w+|XDG_\w+|https?_proxy|no_proxy|all_proxy|SSL_CERT_\w+|NODE_EXTRA_CA_CERTS|npm_config_registry|PIP_\w+|OTEL_\w+|RATE_LIMIT\w+)$/i;
  const entries = Object.entries(process.env).filter(
    (entry): entry is [string, string] => wanted.test(entry[0]) && entry[1] !== undefined,
  );
  return Object.fromEntries(entries);
}
