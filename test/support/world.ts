import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CoreV1Api } from "@kubernetes/client-node";
import { inject } from "vitest";
import { fields as gatewayFields } from "../../gateway/config.ts";
import { start as startGateway } from "../../gateway/main.ts";
import { fields as deployerFields } from "../../services/deployer/config.ts";
import { connectKube } from "../../services/deployer/kube/client.ts";
import { start as startDeployer } from "../../services/deployer/main.ts";
import { fields as identityFields } from "../../services/identity/config.ts";
import { start as startIdentity } from "../../services/identity/main.ts";
import { makeToken } from "../../services/kit/bearer-token.ts";
import { createLog } from "../../services/kit/log.ts";
import { readConfig } from "../../services/kit/process/config.ts";
import { freePort } from "../../services/kit/process/free-port.ts";
import { programsDir } from "../../services/kit/process/program.ts";
import { testDatabase } from "../../services/kit/testing/testing.ts";
import { fields as variablesFields } from "../../services/variables/config.ts";
import { start as startVariables } from "../../services/variables/main.ts";
import { type Door, openDoor } from "./door.ts";
import { testNats } from "./nats.ts";

/** The whole platform in this process, on servers and folders of its own, seen through its public door. */
export type World = Awaited<ReturnType<typeof startWorld>>;

const base64Key = () => randomBytes(32).toString("base64");

/** What the environment of a process becomes before it starts: other addresses, say. */
export type Rewire = (service: string, env: Record<string, string>) => Promise<Record<string, string>>;

/**
 * What the platform runs on, for one test: servers and folders of its own, ports, and `env` of each of its
 * processes. `extra` adds environment variables. Rate limits are off unless `extra` sets them.
 */
export async function surroundings(extra: Record<string, string> = {}) {
  const services = ["identity", "variables", "deployer", "gateway"];
  const [database, nats, dir] = await Promise.all([
    testDatabase(services),
    testNats(),
    mkdtemp(join(tmpdir(), "berth-world-")),
  ]);
  const ports = { identity: await freePort(), variables: await freePort(), deployer: await freePort() };
  const gatewayPort = await freePort();
  const origin = `http://127.0.0.1:${gatewayPort}`;
  const ownerToken = makeToken("pat");
  const [internalKeys, secretKeys] = [base64Key(), base64Key()];
  const encryptionKeys = `k1:${base64Key()}`;
  const routerPort = await freePort();
  const env = (service: string): Record<string, string> => ({
    DATABASE_URL: database.url(service),
    NATS_URL: nats.url,
    PORT: String(service === "gateway" ? gatewayPort : ports[service as keyof typeof ports]),
    INTERNAL_KEYS: internalKeys,
    ENCRYPTION_KEYS: encryptionKeys,
    SECRET_KEYS: secretKeys,
    UPLOAD_KEYS: secretKeys,
    LOG_LEVEL: "debug",
    PUBLIC_ORIGIN: origin,
    IDENTITY_URL: `http://127.0.0.1:${ports.identity}`,
    VARIABLES_URL: `http://127.0.0.1:${ports.variables}`,
    DEPLOYER_URL: `http://127.0.0.1:${ports.deployer}`,
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

/** Starts identity, variables, deployer and gateway with their real configuration readers. */
export async function startWorld(
  extra: Record<string, string> = {},
  rewire: Rewire = async (_service, env) => env,
) {
  const around = await surroundings(extra);
  const { ports, origin, ownerToken, internalKeys, routerPort, dir, database, nats } = around;
  const logLines: string[] = [];
  const env = (service: string) => rewire(service, around.env(service));
  const log = (service: string) => createLog(service, "debug", (line) => void logLines.push(line));

  const [identity, variables, deployer] = await Promise.all([
    startIdentity(readConfig(await env("identity"), identityFields), log("identity")),
    startVariables(readConfig(await env("variables"), variablesFields), log("variables")),
    startDeployer(readConfig(await env("deployer"), deployerFields), log("deployer")),
  ]);
  const gateway = await startGateway(readConfig(await env("gateway"), gatewayFields), log("gateway"));
  const door = await openDoor(origin, ownerToken);
  return {
    ...door,
    ports,
    /** Ports of the services' gRPC servers, and the keys that sign a caller for them. */
    grpcPorts: { identity: identity.grpcPort, variables: variables.grpcPort, deployer: deployer.grpcPort },
    internalKeys,
    routerPort,
    dir,
    logLines,
    database,
    nats,
    /** Everything that the platform's processes have written so far. */
    output: async () => logLines.join("\n"),
    async stop() {
      await gateway.stop();
      await Promise.all([identity, variables, deployer].map((service) => service.stop()));
      await around.remove();
    },
  };
}

declare module "vitest" {
  // biome-ignore lint/style/useConsistentTypeDefinitions: an interface is merged with the library's own.
  interface ProvidedContext {
    /** The platform that a run on a cluster is about; absent where each file starts its own. */
    platform?: {
      origin: string;
      ownerToken: string;
      /** Address at which apps answer by their Host. */
      appsHost: string;
      /** Where the platform's pods run. */
      namespace: string;
    };
    /** An image with `node`: as the cluster's nodes name it, and as a Dockerfile that is built there does. */
    clusterImages: {
      node: string;
      nodeToBuildFrom: string;
      platform: string;
      builder: string;
      postgres: string;
      redis: string;
      python: string;
    };
  }
}

/** What a user story needs: the platform behind its door, and what its processes write. */
export type Platform = Door & { output: () => Promise<string>; stop: () => Promise<void> };

/**
 * The platform that the run is about, or one started in this process: for stories that hold wherever Berth
 * runs.
 */
export async function openPlatform(): Promise<Platform> {
  const given = inject("platform");
  if (!given) return startWorld();
  const door = await openDoor(given.origin, given.ownerToken);
  return { ...door, output: () => outputOf(given.namespace), stop: async () => {} };
}

/** The log of every container of the platform, those before a restart included. */
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
