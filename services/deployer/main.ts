import { BackupService } from "../../proto/gen/berth/deployer/v1/backups_pb.ts";
import { CatalogService } from "../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { DeploymentService } from "../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { DomainService } from "../../proto/gen/berth/deployer/v1/domains_pb.ts";
import { InternalService } from "../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { MetricsService } from "../../proto/gen/berth/deployer/v1/metrics_pb.ts";
import { RegistryService } from "../../proto/gen/berth/deployer/v1/registries_pb.ts";
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
import { createStatistics } from "./addons/statistics/read-statistics.ts";
import { createTunnels } from "./addons/tunnels/tunnels.ts";
import { startGrowingVolumes } from "./addons/volumes/grow-volumes.ts";
import { backupService } from "./api/backup-service.ts";
import { catalogService } from "./api/catalog-service.ts";
import { deploymentService } from "./api/deployment-service.ts";
import { domainService } from "./api/domain-service.ts";
import { internalService } from "./api/internal-service.ts";
import { metricsService } from "./api/metrics-service.ts";
import { registryService } from "./api/registry-service.ts";
import { runService } from "./api/run-service.ts";
import { createFollowedEnvironments } from "./api/streams/followed-environments.ts";
import { createToService } from "./api/to-service.ts";
import { deleteKeptBackups } from "./backups/kept-sql.ts";
import { startMovingBackups } from "./backups/move-backups.ts";
import { startProving, watchProofs } from "./backups/proofs/prove-backups.ts";
import { startNightly } from "./backups/start-nightly.ts";
import { startSweepingBackups } from "./backups/sweep-backups.ts";
import { type Config, fields, kubernetesFields, POOL } from "./config.ts";
import { startDomains } from "./domains/check-domains.ts";
import { domainSettings } from "./domains/config.ts";
import { createLookUp } from "./domains/look-up.ts";
import { watchCertificates } from "./domains/metrics.ts";
import type { Engine } from "./engine/local.ts";
import { variableHandlers } from "./events.ts";
import { accountImages } from "./images/account-images.ts";
import { parseRegistryHost, type RegistryRules } from "./images/registries/host.ts";
import { registryLogins } from "./images/registries/logins.ts";
import { deleteRegistries } from "./images/registries/sql.ts";
import { startMovingRuns } from "./jobs/move-runs.ts";
import { startScheduled } from "./jobs/start-scheduled.ts";
import { startSampling } from "./metrics/sample.ts";
import { createAnnounce } from "./projects/announce.ts";
import { deleteProjects } from "./projects/delete-projects.ts";
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
    const rules = registryRules(config);
    const logins = registryLogins({ db: pool, secrets, rules, log });
    const plansOf = logins.withLogins(environmentPlans(pool, entitlementsOf));
    const engine = await startEngine(config, secrets, log, plansOf);
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
    const toService = createToService(addonServers);
    const catalog = {
      ...{ pool, cursors, secrets, images, announce, entitlementsOf, followed, autoscales, toService },
      addonServers,
    };
    const deployments = {
      pool,
      cursors,
      secrets,
      store,
      runtime,
      addonServers,
      builder,
      resolve,
      early,
      changes,
      images,
      entitlementsOf,
    };
    const settings = domainSettings(config, ownHosts(config));
    const lookUp = createLookUp(config.dnsServers, settings);
    const readStatistics = createStatistics({ pool, secrets, servers: addonServers });
    let checking: ReturnType<typeof startDomains> | undefined;
    const domains = { pool, cursors, entitlementsOf, settings, wake: () => checking?.wake() };
    let movingBackups: ReturnType<typeof startMovingBackups> | undefined;
    const backups = {
      ...{ pool, cursors, toService, store, backups: addonServers.backups },
      wake: () => movingBackups?.wake(),
    };
    let moving: ReturnType<typeof startMovingRuns> | undefined;
    const runs = { pool, cursors, changes, entitlementsOf, wake: () => moving?.wake() };
    return {
      routes(router) {
        router.service(CatalogService, catalogService(catalog));
        router.service(DeploymentService, deploymentService(deployments));
        router.service(DomainService, domainService(domains));
        router.service(RegistryService, registryService({ pool, cursors, logins, rules }));
        router.service(RunService, runService(runs));
        router.service(BackupService, backupService(backups));
        router.service(MetricsService, metricsService({ pool, runtime, addonServers, readStatistics, log }));
        router.service(InternalService, internalService({ pool, secrets, addonServers }));
      },
      other: engine.other,
      upgrades: createTunnels({ pool, secrets, servers: addonServers, log }),
      async detail() {
        const onOperator = (await addonServers.postgresEngine()) === "cnpg";
        return `New PostgreSQL addons run on ${onOperator ? "CloudNativePG" : "the usual engine"}.`;
      },
      consumers: [
        { name: "deployer-variables", from: "variables", handlers: variableHandlers() },
        {
          name: "deployer-identity",
          from: "identity",
          handlers: identityHandlers(deleteProjects, deleteRegistries, deleteKeptBackups),
        },
        {
          name: "deployer-billing",
          from: "billing",
          handlers: [...billingHandlers(), ...suspensionHandlers()],
        },
      ],
      async background() {
        const { buildsAtOnce } = config;
        const proofs = config.addonProofs === "on";
        const given = { databaseUrl, pool, secrets, early, entitlementsOf, logins, buildsAtOnce, log };
        const decide = async (watched: Pick<Engine, "runtime" | "addonServers">) => {
          const onReady = () => movingBackups?.wake();
          const addons = createAddons({ pool, secrets, servers: watched.addonServers, onReady, log });
          const reconciler = await startServiceReconciler({ ...engine, ...watched, ...given, addons });
          const started = startDomains({ pool, runtime: watched.runtime, lookUp, log });
          checking = started;
          const sampling = startSampling({ pool, ...watched, log });
          moving = startMovingRuns({
            ...{ pool, log, resolve, images, runtime: watched.runtime },
            minReadySeconds: engine.minReadySeconds,
          });
          const scheduled = startScheduled({ pool, entitlementsOf, log, wake: moving.wake });
          const own = { pool, backups: watched.addonServers.backups, kept: config.addonBackupsKept, log };
          movingBackups = startMovingBackups({ ...own, store, secrets, addons });
          const nightly = startNightly({ ...own, wake: movingBackups.wake });
          const proving = startProving({ ...own, on: proofs });
          const sweeping = startSweepingBackups({ pool, store, log, wake: movingBackups.wake });
          const growing = watched.addonServers.listFilling
            ? [startGrowingVolumes({ ...given, servers: watched.addonServers })]
            : [];
          const backingUp = [nightly, proving, sweeping, movingBackups];
          const all = [started, sampling, scheduled, moving, ...backingUp, ...growing, reconciler];
          return { stop: async () => void (await Promise.all(all.map((one) => one.stop()))) };
        };
        // In each replica: also when none is elected.
        watchWaitingWork(pool);
        watchCertificates(pool);
        watchProofs(pool, proofs);
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

/** Returns which registries accounts may have logins for. */
function registryRules(config: Config): RegistryRules {
  const { allowedRegistries: allowed, accountRegistries } = config;
  const paths = config.engine === "kubernetes" ? [config.registryPush, config.registryPull] : [];
  const own = paths.flatMap((path) => parseRegistryHost(path.split("/")[0]!) ?? []);
  return { accounts: accountRegistries === "on", allowed, own };
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
