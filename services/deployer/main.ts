import { CatalogService } from "../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { DeploymentService } from "../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { DomainService } from "../../proto/gen/berth/deployer/v1/domains_pb.ts";
import { InternalService } from "../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { MetricsService } from "../../proto/gen/berth/deployer/v1/metrics_pb.ts";
import { RunService } from "../../proto/gen/berth/deployer/v1/runs_pb.ts";
import { InternalService as VariablesInternal } from "../../proto/gen/berth/variables/v1/internal_pb.ts";
import type { Logger } from "../kit/log.ts";
import { createEntitlements } from "../kit/plans.ts";
import { startChangeFeed } from "../kit/postgres/change-feed.ts";
import { main } from "../kit/process/process.ts";
import { startService } from "../kit/process/service.ts";
import { environmentPlans } from "./accounts/environment-plans.ts";
import { billingHandlers, identityHandlers } from "./accounts/provisioning.ts";
import { createAddons } from "./addons/lifecycle.ts";
import { catalogService } from "./api/catalog-service.ts";
import { deploymentService } from "./api/deployment-service.ts";
import { domainService } from "./api/domain-service.ts";
import { internalService } from "./api/internal-service.ts";
import { metricsService } from "./api/metrics-service.ts";
import { runService } from "./api/run-service.ts";
import { createFollowedEnvironments } from "./api/streams/followed-environments.ts";
import { type Config, fields, kubernetesFields, POOL } from "./config.ts";
import { startDomains } from "./domains/check-domains.ts";
import { domainSettings } from "./domains/config.ts";
import { createLookUp } from "./domains/look-up.ts";
import type { Engine } from "./engine/local.ts";
import { variableHandlers } from "./events.ts";
import { accountImages } from "./images/account-images.ts";
import { startMovingRuns } from "./jobs/move-runs.ts";
import { startScheduled } from "./jobs/start-scheduled.ts";
import { startSampling } from "./metrics/sample.ts";
import { createAnnounce } from "./projects/announce.ts";
import { deleteProject } from "./projects/delete-project.ts";
import { watchWaitingWork } from "./reconcile/metrics.ts";
import { startServiceReconciler } from "./reconcile/reconciler.ts";
import { createSecrets, type Secrets } from "./secrets.ts";
import { suspensionHandlers } from "./suspension/suspension.ts";
import type { EnvironmentPlans } from "./terms/environment-plan.ts";
import { createEarlyVariables } from "./variables/early-variables.ts";
import { createVariablesResolver } from "./variables/variables-client.ts";

/** Starts the deployer: the database, the engine with what already runs, then the server and the reconciler. */
export async function start(config: Config, log: Logger, startEngine = startChosenEngine) {
  const { databaseUrl } = config;
  const options = { name: "deployer", folder: import.meta.dirname, config, log, maxConnections: POOL };
  return startService(options, async ({ pool, cursors, client }) => {
    const entitlementsOf = createEntitlements(config);
    const secrets = createSecrets(config.secretKeys);
    const engine = await startEngine(config, secrets, log, environmentPlans(pool, entitlementsOf));
    const { runtime, store, builder, addonServers } = engine;
    const images = accountImages(engine.isBuiltImage, config.allowedRegistries);
    const variables = client(VariablesInternal, config.variablesUrl);
    const announce = createAnnounce(variables);
    const resolve = createVariablesResolver(variables);
    const early = createEarlyVariables(resolve);
    const changes = await startChangeFeed({
      url: databaseUrl,
      name: "deployer-follow",
      log,
      fallbackMs: 1_000,
    });
    const followed = createFollowedEnvironments({ pool, changes, log });
    const autoscales = runtime.autoscales ?? false;
    const catalog = { pool, cursors, secrets, images, announce, entitlementsOf, followed, autoscales };
    const deployments = {
      pool,
      cursors,
      secrets,
      store,
      runtime,
      builder,
      resolve,
      early,
      changes,
      images,
      entitlementsOf,
    };
    const settings = domainSettings(config, ownHosts(config));
    const lookUp = createLookUp(config.dnsServers, settings);
    let checking: ReturnType<typeof startDomains> | undefined;
    const domains = { pool, cursors, entitlementsOf, settings, wake: () => checking?.wake() };
    let moving: ReturnType<typeof startMovingRuns> | undefined;
    const runs = { pool, cursors, changes, entitlementsOf, wake: () => moving?.wake() };
    return {
      routes(router) {
        router.service(CatalogService, catalogService(catalog));
        router.service(DeploymentService, deploymentService(deployments));
        router.service(DomainService, domainService(domains));
        router.service(RunService, runService(runs));
        router.service(MetricsService, metricsService({ pool, runtime, log }));
        router.service(InternalService, internalService({ pool, secrets, addonServers }));
      },
      other: engine.other,
      consumers: [
        { name: "deployer-variables", from: "variables", handlers: variableHandlers() },
        { name: "deployer-identity", from: "identity", handlers: identityHandlers(deleteProject) },
        {
          name: "deployer-billing",
          from: "billing",
          handlers: [...billingHandlers(), ...suspensionHandlers()],
        },
      ],
      async background() {
        const { buildsAtOnce } = config;
        const given = { databaseUrl, pool, secrets, early, entitlementsOf, buildsAtOnce, log };
        const decide = async (watched: Pick<Engine, "runtime" | "addonServers">) => {
          const addons = createAddons({ pool, secrets, servers: watched.addonServers, log });
          const reconciler = await startServiceReconciler({ ...engine, ...watched, ...given, addons });
          const started = startDomains({ pool, runtime: watched.runtime, lookUp, log });
          checking = started;
          const sampling = startSampling({ pool, runtime: watched.runtime, log });
          moving = startMovingRuns({
            ...{ pool, log, resolve, images, runtime: watched.runtime },
            minReadySeconds: engine.minReadySeconds,
          });
          const wake = moving.wake;
          const scheduled = startScheduled({ pool, entitlementsOf, log, wake });
          const all = [started, sampling, scheduled, moving, reconciler];
          return { stop: async () => void (await Promise.all(all.map((one) => one.stop()))) };
        };
        // In each replica: also when none is elected.
        watchWaitingWork(pool);
        const deciding = await (engine.lead ? engine.lead(decide) : decide(engine));
        return {
          stop: async () => {
            await deciding.stop();
            await engine.stop();
            await followed.stop();
            await changes.stop();
          },
        };
      },
    };
  });
}

/** Returns the host names of the installation that its settings name. */
function ownHosts(config: Config) {
  const { appsDomain = "localhost" } = config;
  if (config.engine === "kubernetes") return { appsDomain };
  return { appsDomain, publicHost: new URL(config.publicOrigin).hostname };
}

/** Loads the chosen engine only: the Kubernetes client takes as much memory as everything else. */
async function startChosenEngine(
  config: Config,
  secrets: Secrets,
  log: Logger,
  plansOf: EnvironmentPlans,
): Promise<Engine> {
  if (config.engine === "kubernetes")
    return (await import("./engine/kubernetes.ts")).startKubernetesEngine(config, log, plansOf);
  return (await import("./engine/local.ts")).startLocalEngine(config, secrets, log);
}

if (import.meta.main) {
  if (process.env.ENGINE === "kubernetes") await main("deployer", kubernetesFields, start);
  else await main("deployer", fields, start);
}
