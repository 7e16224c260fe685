import type { ServiceImpl } from "@connectrpc/connect";
import { BillingService } from "../../proto/gen/berth/billing/v1/billing_pb.ts";
import { InternalService as BillingInternal } from "../../proto/gen/berth/billing/v1/internal_pb.ts";
import { CatalogService } from "../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { DeploymentService } from "../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { VariablesService } from "../../proto/gen/berth/variables/v1/variables_pb.ts";
import { createLog } from "../../services/kit/log.ts";
import { readConfig } from "../../services/kit/process/config.ts";
import { type ServerOptions, serve } from "../../services/kit/process/server.ts";
import { migratedDatabase, testKeys } from "../../services/kit/testing/testing.ts";
import { startIdentity } from "../../test/support/identity.ts";
import { testNats } from "../../test/support/servers/nats.ts";
import { fields } from "../config.ts";
import { start } from "../main.ts";
import { upstreamNames } from "../upstreams.ts";
import { apiClient } from "./api-client.ts";

/** Handlers in place of the services that a test does not need whole. */
export type Stubs = {
  variables?: Partial<ServiceImpl<typeof VariablesService>>;
  catalog?: Partial<ServiceImpl<typeof CatalogService>>;
  deployments?: Partial<ServiceImpl<typeof DeploymentService>>;
  billing?: Partial<ServiceImpl<typeof BillingService>>;
  /** What billing does with webhooks. */
  webhooks?: Partial<ServiceImpl<typeof BillingInternal>>;
  /** Requests at the deployer that are not RPCs. */
  uploads?: ServerOptions["other"];
};

export type TestPlatform = Awaited<ReturnType<typeof testPlatform>>;

const log = createLog("test", "silent");

/** Addresses of upstreams where nothing answers. */
const awayEnv = Object.fromEntries(
  upstreamNames.map((name) => [`${name.toUpperCase()}_URL`, "http://127.0.0.1:1"]),
);

/**
 * A database, NATS, a real identity with one owner, and kit servers that answer the other services'
 * RPCs by the given handlers; gateways are started on it.
 */
export async function testPlatform(
  stubs: Stubs = {},
  publicOrigin?: string,
  identityOptions: Omit<Parameters<typeof startIdentity>[0], "databaseUrl" | "natsUrl" | "publicOrigin"> = {},
) {
  const [database, nats] = await Promise.all([migratedDatabase(), testNats()]);
  const identity = await startIdentity({
    databaseUrl: database.url("identity"),
    natsUrl: nats.url,
    publicOrigin,
    ...identityOptions,
  });
  const { ownerToken } = identity;
  const kit = { host: "127.0.0.1", port: 0, grpcPort: 0, keys: testKeys, log, ready: async () => true };
  const variables = await serve({
    ...kit,
    routes: (router) => router.service(VariablesService, stubs.variables ?? {}),
  });
  const deployer = await serve({
    ...kit,
    routes: (router) => {
      router.service(CatalogService, stubs.catalog ?? {});
      router.service(DeploymentService, stubs.deployments ?? {});
    },
    ...(stubs.uploads && { other: stubs.uploads }),
  });
  const billing = await serve({
    ...kit,
    routes: (router) => {
      router.service(BillingService, stubs.billing ?? {});
      router.service(BillingInternal, stubs.webhooks ?? {});
    },
  });
  const gatewayEnv: Record<string, string> = {
    NATS_URL: nats.url,
    INTERNAL_KEYS: testKeys.map((key) => key.toString("base64")).join(),
    LOG_LEVEL: "silent",
    DATABASE_URL: database.url("gateway"),
    ...awayEnv,
    IDENTITY_URL: `http://127.0.0.1:${identity.port}`,
    VARIABLES_URL: `http://127.0.0.1:${variables.port}`,
    DEPLOYER_URL: `http://127.0.0.1:${deployer.port}`,
    BILLING_URL: `http://127.0.0.1:${billing.port}`,
    RATE_LIMITS: "off",
    CONSOLE: "off",
  };
  const gateways = new Set<() => Promise<void>>();
  return {
    database,
    nats,
    ownerToken,
    gatewayEnv,
    /** A gateway of its own; `extra` adds environment variables. */
    async gateway(extra: Record<string, string> = {}, lines?: string[]) {
      const sink = lines && ((line: string) => void lines.push(line));
      const toLog = lines ? createLog("gateway", "debug", sink) : log;
      const running = await start(readConfig({ ...gatewayEnv, ...extra }, fields), toLog);
      const stop = async () => {
        if (gateways.delete(stop)) await running.stop();
      };
      gateways.add(stop);
      return { ...running, stop, call: apiClient(running.baseUrl, ownerToken) };
    },
    identityPort: identity.port,
    stopIdentity: () => identity.stop(),
    stopBilling: () => billing.stop(),
    async stop() {
      await Promise.all([...gateways].map((stop) => stop()));
      await Promise.all([identity.stop(), variables.stop(), deployer.stop(), billing.stop()]);
      await Promise.all([database.drop(), nats.remove()]);
    },
  };
}
