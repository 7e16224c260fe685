import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CoreV1Api } from "@kubernetes/client-node";
import { inject, type ProvidedContext } from "vitest";
import { programs } from "../../deploy/local/programs/programs.ts";
import { fields as gatewayFields } from "../../gateway/config.ts";
import { start as startGateway } from "../../gateway/main.ts";
import { connectKube } from "../../services/deployer/kube/client.ts";
import { makeToken } from "../../services/kit/crypto/bearer-token.ts";
import { createLog, type Logger } from "../../services/kit/log.ts";
import { type Field, readConfig } from "../../services/kit/process/config.ts";
import { freePort } from "../../services/kit/process/free-port.ts";
import type { Running } from "../../services/kit/process/process.ts";
import { programsDir } from "../../services/kit/process/program.ts";
import { type Mailbox, startMailbox } from "../../services/kit/testing/smtp-server.ts";
import { migratedDatabase } from "../../services/kit/testing/testing.ts";
import { testDomain } from "../cluster/setup/domain.ts";
import { type Door, openDoor } from "./door.ts";
import { startForwardProxy } from "./servers/forward-proxy.ts";
import { testNats } from "./servers/nats.ts";

/** The whole platform in this process, with its own servers and folders, used through its public API. */
export type World = Awaited<ReturnType<typeof startWorld>>;

const ROOT = join(import.meta.dirname, "../..");
const services = programs.filter(({ kind }) => kind === "service");

type Service = {
  fields: Record<string, Field<unknown>>;
  start: (config: unknown, log: Logger) => Promise<Running & { grpcPort: number }>;
};

async function loadService(folder: string): Promise<Service> {
  const { fields } = await import(join(ROOT, folder, "config.ts"));
  const { start } = await import(join(ROOT, folder, "main.ts"));
  return { fields, start };
}

const base64Key = () => randomBytes(32).toString("base64");

/** Changes the environment of a process before it starts, such as its addresses. */
export type Rewire = (service: string, env: Record<string, string>) => Promise<Record<string, string>>;

/**
 * Prepares what a platform needs for one test: servers, folders and ports of its own, and the environment of each
 * process (`env`). `extra` adds environment variables. Rate limits are off unless `extra` sets them.
 */
export async function prepareWorld(extra: Record<string, string> = {}) {
  const [database, nats, dir] = await Promise.all([
    migratedDatabase(),
    testNats(),
    mkdtemp(join(tmpdir(), "berth-world-")),
  ]);
  const ports: Record<string, number> = {};
  for (const { name } of programs) ports[name] = await freePort();
  const urls = services.map(({ name }) => [`${name.toUpperCase()}_URL`, `http://127.0.0.1:${ports[name]}`]);
  const origin = `http://127.0.0.1:${ports.gateway}`;
  const ownerToken = makeToken("pat");
  const [internalKeys, secretKeys] = [base64Key(), base64Key()];
  const encryptionKeys = `k1:${base64Key()}`;
  const routerPort = await freePort();
  const env = (service: string): Record<string, string> => ({
    DATABASE_URL: database.url(service),
    NATS_URL: nats.url,
    PORT: String(ports[service]),
    INTERNAL_KEYS: internalKeys,
    ENCRYPTION_KEYS: encryptionKeys,
    SECRET_KEYS: secretKeys,
    UPLOAD_KEYS: secretKeys,
    LOG_LEVEL: "debug",
    PUBLIC_ORIGIN: origin,
    ...Object.fromEntries(urls),
    BOOTSTRAP_OWNER_EMAIL: "owner@example.com",
    BOOTSTRAP_OWNER_PASSWORD: "a-password-of-the-owner",
    BOOTSTRAP_OWNER_TOKEN: ownerToken,
    DATA_DIR: join(dir, "deployer"),
    PROGRAMS_DIR: programsDir,
    ROUTER_PORT: String(routerPort),
    ADDON_POSTGRES_URL: inject("postgresAdminUrl"),
    RATE_LIMITS: "off",
    ...extra,
  });
  return {
    env,
    ports,
    origin,
    ownerToken,
    internalKeys: internalKeys.split(",").map((key) => Buffer.from(key, "base64")),
    routerPort,
    dir,
    database,
    nats,
    remove: () =>
      Promise.all([database.drop(), nats.remove(), rm(dir, { recursive: true, force: true })]).then(() => {}),
  };
}

/** Starts every service, then the gateway, with their real configuration readers. */
export async function startWorld(
  extra: Record<string, string> = {},
  rewire: Rewire = async (_service, env) => env,
) {
  const deps = await prepareWorld(extra);
  const { ports, origin, ownerToken, internalKeys, routerPort, dir, database, nats } = deps;
  const logLines: string[] = [];
  const env = (service: string) => rewire(service, deps.env(service));
  const log = (service: string) => createLog(service, "debug", (line) => void logLines.push(line));

  const running = await Promise.all(
    services.map(async ({ name, folder }) => {
      const { fields, start } = await loadService(folder);
      return { name, ...(await start(readConfig(await env(name), fields), log(name))) };
    }),
  );
  const gateway = await startGateway(readConfig(await env("gateway"), gatewayFields), log("gateway"));
  const door = await openDoor(origin, ownerToken);
  return {
    ...door,
    processEnv: {},
    ports,
    /** Ports of the services' gRPC servers, and the keys that sign a caller for them. */
    grpcPorts: Object.fromEntries(running.map(({ name, grpcPort }) => [name, grpcPort])),
    internalKeys,
    routerPort,
    dir,
    logLines,
    database,
    nats,
    /** Returns everything that the platform's processes have logged so far. */
    output: async () => logLines.join("\n"),
    async stop() {
      await gateway.stop();
      await Promise.all(running.map((service) => service.stop()));
      await deps.remove();
    },
  };
}

declare module "vitest" {
  // biome-ignore lint/style/useConsistentTypeDefinitions: an interface is merged with the library's own.
  interface ProvidedContext {
    /** The platform under test in a run on a cluster; absent when each file starts its own. */
    platform?: {
      origin: string;
      ownerToken: string;
      /** Address at which apps answer by their Host. */
      appsHost: string;
      /** Where the platform's pods run. */
      namespace: string;
      /** The certificate that it shows, signed by itself. */
      certificate: string;
      /** Where it sends its mail. */
      smtp: { host: string; port: number };
    };
    /** Images by the names that nodes pull; `nodeToBuildFrom`, `python` and `buildpacks` are what builds there use. */
    clusterImages: {
      node: string;
      nodeToBuildFrom: string;
      platform: string;
      builder: string;
      postgres: string;
      /** An earlier version of PostgreSQL. */
      postgres15: string;
      redis: string;
      valkey: string;
      pgbouncer: string;
      python: string;
      buildpacks?: string;
    };
  }
}

/** What a user story needs: the platform's public API, and the output of its processes. */
export type Platform = Door & {
  /** What a process of its own needs in its environment to reach the platform. */
  processEnv: Record<string, string>;
  output: () => Promise<string>;
  stop: () => Promise<void>;
};

/**
 * Returns the platform under test in a run on a cluster, else one started in this process: for stories that hold
 * wherever Berth runs.
 */
export async function openPlatform(): Promise<Platform> {
  const given = inject("platform");
  if (!given) return startWorld();
  const door = await openDoor(given.origin, given.ownerToken);
  const { env, close } = await openWay(given);
  return { ...door, processEnv: env, output: () => outputOf(given.namespace), stop: close };
}

/**
 * Only this process resolves the names of a platform on a cluster (test/cluster/setup/reach.ts) and trusts its certificate:
 * others do by a proxy here and a file.
 */
async function openWay({ appsHost, certificate }: NonNullable<ProvidedContext["platform"]>) {
  const [proxy, dir] = await Promise.all([
    startForwardProxy(testDomain, appsHost),
    mkdtemp(join(tmpdir(), "berth-way-")),
  ]);
  const file = join(dir, "certificate.pem");
  await writeFile(file, certificate);
  const close = async () => {
    proxy.stop();
    await rm(dir, { recursive: true, force: true });
  };
  return { env: { HTTPS_PROXY: proxy.url, HTTP_PROXY: proxy.url, NODE_EXTRA_CA_CERTS: file }, close };
}

/** As `openPlatform`, with the mailbox to which the platform sends. */
export async function openMailedPlatform(): Promise<{ platform: Platform; box: Mailbox }> {
  const given = inject("platform");
  const box = await startMailbox({ at: given?.smtp });
  const mail = { SMTP_URL: box.url, MAIL_FROM: "Berth <berth@example.com>" };
  return { platform: given ? await openPlatform() : await startWorld(mail), box };
}

/** Returns the logs of all containers of the platform, including those before a restart. */
async function outputOf(namespace: string): Promise<string> {
  const { config } = connectKube();
  const core = config.makeApiClient(CoreV1Api);
  const { items } = await core.listNamespacedPod({ namespace });
  const read = (name: string, container: string, previous: boolean) =>
    core.readNamespacedPodLog({ namespace, name, container, previous }).catch(() => "");
  const logs = items.flatMap(({ metadata, spec }) =>
    spec!.containers.flatMap(({ name }) => [false, true].map((old) => read(metadata!.name!, name, old))),
  );
  return (await Promise.all(logs)).join("\n");
}
