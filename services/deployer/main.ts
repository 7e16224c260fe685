import { join } from "node:path";
import { CatalogService } from "../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { DeploymentService } from "../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { VariablesService } from "../../proto/gen/berth/variables/v1/variables_pb.ts";
import { connectBus } from "../kit/events/bus.ts";
import { type Handler, startConsumer } from "../kit/events/consumer.ts";
import { startRelay } from "../kit/events/outbox.ts";
import type { Logger } from "../kit/log.ts";
import { createPool } from "../kit/postgres/db.ts";
import { migrate } from "../kit/postgres/migrate.ts";
import { createCursors } from "../kit/postgres/paging.ts";
import { main } from "../kit/process/process.ts";
import { serve } from "../kit/process/server.ts";
import { serviceClient } from "../kit/rpc/client.ts";
import { startTelemetry } from "../kit/telemetry.ts";
import { billingHandlers, identityHandlers } from "./accounts/provisioning.ts";
import { createAddons } from "./addons/lifecycle.ts";
import { catalogService } from "./api/catalog-service.ts";
import { listenForChanges } from "./api/change-feed.ts";
import { deploymentService } from "./api/deployment-service.ts";
import { createAnnounce } from "./catalog/delete-services.ts";
import { type Config, fields, kubernetesFields } from "./config.ts";
import type { Engine } from "./engine/local.ts";
import { variableHandlers } from "./events.ts";
import { accountImages } from "./images/account-images.ts";
import { startReconciler } from "./reconcile/reconciler.ts";
import { createVariablesResolver } from "./releases/variables-client.ts";
import { createSecrets, type Secrets } from "./secrets.ts";

/** Starts the deployer: database, what runs already, then the server and the reconciler. */
export async function start(config: Config, log: Logger, startEngine = chosenEngine) {
  const { databaseUrl, internalKeys } = config;
  const telemetry = await startTelemetry("deployer", config.otlpUrl);
  const pool = createPool(databaseUrl, { name: "deployer", max: 16, timeouts: config });
  await migrate(pool, join(import.meta.dirname, "migrations"));
  const secrets = createSecrets(config.secretKeys);
  const engine = await startEngine(config, secrets, log);
  const { runtime, store, addonServers } = engine;
  const images = accountImages(engine.isBuiltImage);
  const bus = connectBus(config.natsUrl, "deployer", log);
  const cursors = createCursors(internalKeys);
  const variables = { url: config.variablesUrl, keys: internalKeys, name: "deployer" };
  const variablesClient = serviceClient(VariablesService, variables);
  const resolve = createVariablesResolver(variablesClient);
  const addons = createAddons({ pool, secrets, servers: addonServers, log });
  const catalog = catalogService({
    pool,
    cursors,
    secrets,
    addonServers,
    images,
    announce: createAnnounce(variablesClient),
  });
  const changes = await listenForChanges({ url: databaseUrl, log });
  const deployments = deploymentService({ pool, cursors, secrets, store, runtime, resolve, changes, images });
  const server = await serve({
    host: config.host,
    port: config.port,
    grpcPort: config.grpcPort,
    keys: internalKeys,
    log,
    services: [CatalogService, DeploymentService],
    routes: (router) => {
      router.service(CatalogService, catalog);
      router.service(DeploymentService, deployments);
    },
    answers: pool,
    ready: async () => (await pool.query("select 1")).rowCount === 1,
    other: engine.other,
  });
  const reconciler = await startReconciler({
    ...engine,
    databaseUrl,
    pool,
    addons,
    secrets,
    resolve,
    log,
  });
  const relay = startRelay({ url: databaseUrl, bus, log });
  const listen = (from: string, handlers: Handler[]) =>
    startConsumer({ bus, pool, log, name: `deployer-${from}`, from, handlers });
  const consumers = [
    listen("variables", variableHandlers()),
    listen("identity", identityHandlers()),
    listen("billing", billingHandlers()),
  ];
  return {
    port: server.port,
    grpcPort: server.grpcPort,
    stop: async () => {
      // Apps take longest to end, and requests under way may wait: both at once.
      const served = server.stop();
      await Promise.all([...consumers.map((consumer) => consumer.stop()), reconciler.stop()]);
      await Promise.all([served, engine.stop()]);
      await changes.stop();
      await relay.stop();
      await bus.close();
      await pool.end();
      await telemetry.stop();
    },
  };
}

/** Only the chosen one is loaded: the Kubernetes client takes as much memory as all the rest. */
async function chosenEngine(config: Config, secrets: Secrets, log: Logger): Promise<Engine> {
  if (config.engine === "kubernetes")
    return (await import("./engine/kubernetes.ts")).startKubernetesEngine(config, log);
  return (await import("./engine/local.ts")).startLocalEngine(config, secrets, log);
}

if (import.meta.main) {
  if (process.env.ENGINE === "kubernetes") await main("deployer", kubernetesFields, start);
  else await main("deployer", fields, start);
}
