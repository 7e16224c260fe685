import { readFile } from "node:fs/promises";
import type { Logger } from "../../kit/log.ts";
import { planOf } from "../../kit/plans.ts";
import { archiveOf, patchImages } from "../addons/kubernetes/config.ts";
import { createJobBuilder } from "../builder/job/adapter.ts";
import { jobBuilderOptions } from "../builder/job/config.ts";
import { builtImages } from "../builder/job/registry/built-images.ts";
import type { KubernetesConfig } from "../config.ts";
import { createDigestResolver, type ImageDigests } from "../images/digests/resolve-digest.ts";
import { nodeLogins } from "../images/pulls/node-logins.ts";
import { connectKube } from "../kube/client.ts";
import { onArchitecture, type Placement, withPlanPlacement } from "../kube/pods/placement.ts";
import { reachApi } from "../kube/stream.ts";
import { lokiOptions } from "../runtime/kubernetes/logs/config.ts";
import { dnsPorts } from "../runtime/kubernetes/namespace/namespace-manifests.ts";
import type { KubernetesRuntimeOptions } from "../runtime/kubernetes/options.ts";
import { PULL_SECRET } from "../runtime/kubernetes/release/manifests.ts";
import { createS3Store, removeAll } from "../store/s3/adapter.ts";
import type { EnvironmentPlans } from "../terms/environment-plan.ts";
import { createClusterView } from "./cluster-view.ts";
import { startElection } from "./election.ts";
import type { Engine } from "./local.ts";

const COMPARE_MS = 30_000;
const ROLLOUT_DEADLINE_MS = 300_000;

/** Where accounts may have logins, each namespace has a Secret for them, which each app names; without one, with this. */
export const withoutLogins = () => JSON.stringify({ auths: {} });

/**
 * Runs everything on the cluster that this process is in: uploads in an S3 bucket, builds as Jobs, releases as
 * Deployments, addons as StatefulSets. It keeps no state of its own. Any number of processes answer requests; one that
 * is elected watches the cluster and decides.
 */
export async function startKubernetesEngine(
  config: KubernetesConfig,
  log: Logger,
  plansOf: EnvironmentPlans,
): Promise<Engine> {
  const kube = connectKube();
  const store = createS3Store({
    endpoint: config.s3Endpoint,
    publicEndpoint: config.s3PublicEndpoint,
    bucket: config.s3Bucket,
    region: config.s3Region,
    accessKey: config.s3AccessKey,
    secretKey: config.s3SecretKey,
    log,
  });
  const read = (path: string | undefined) => path && readFile(path, "utf8");
  const [pushLogin, pullLogin] = await Promise.all([
    read(config.registryAuth),
    read(config.registryPullAuth),
  ]);
  const registryAuth = nodeLogins(config, { pushLogin, pullLogin });
  const pulls = registryAuth ?? (config.accountRegistries === "on" ? withoutLogins : undefined);
  const options = runtimeOptions(config, { kube, log, plansOf, registryAuth: pulls });
  const archive = archiveOf(config);
  const dns = { ports: dnsPorts(config.dnsPorts), to: config.dnsPeers };
  const addons = {
    images: config.addonImages,
    earlierImages: config.addonEarlierImages,
    patchImages: patchImages(config),
    storage: { size: config.addonStorageSize, className: config.addonStorageClass },
    ...(config.addonStorageGrows === "on" && { growTo: config.addonStorageSize }),
    ...(registryAuth && { pullSecret: PULL_SECRET }),
    // On any architecture: their images are not built here.
    placement: config.appsPlacement,
    user: config.addonUser,
    dns,
    postgres: {
      engine: config.addonPostgresEngine,
      operatorNamespace: config.addonOperatorNamespace,
      egress: [dns, ...config.addonInstancesTo],
      ...(archive && { archive, emptyArchive: (prefix: string) => removeAll(archive, prefix) }),
    },
    pooler: { image: config.addonPoolerImage },
    ...(config.addonCopyImage !== undefined && { copies: { image: config.addonCopyImage, store } }),
  };
  const begin = () => createClusterView(options, addons);
  const { runtime, addonServers } = begin();
  const [, election] = await Promise.all([
    store.start(),
    startElection({ url: config.databaseUrl, log, begin, reach: (signal) => reachApi(kube, signal) }),
  ]);
  const builder = createJobBuilder({
    kube,
    store,
    log,
    ...jobBuilderOptions(config),
  });
  return {
    runtime,
    builder,
    store,
    addonServers,
    isBuiltImage: builtImages({ push: config.registryPush, pull: config.registryPull }),
    imageDigests: digestsFor(config, [pullLogin, pushLogin], log),
    minReadySeconds: 10,
    other: () => false,
    lead: election.lead,
    stop: election.stop,
  };
}

/** Returns how tags of images are resolved, with the logins of nodes and of builds; undefined where they are not. */
function digestsFor(
  { imageDigests, registryPush, registryPull, registryInsecure, allowedRegistries }: KubernetesConfig,
  logins: (string | undefined)[],
  log: Logger,
): ImageDigests | undefined {
  if (imageDigests === "off") return undefined;
  const registry = { push: registryPush, pull: registryPull, insecure: registryInsecure === "true" };
  const resolve = createDigestResolver({ ...registry, logins, allowed: allowedRegistries, log });
  return { required: imageDigests === "require", resolve };
}

/** Returns where the apps of a plan may run. */
function appPlacements(config: KubernetesConfig): (tier: string | undefined) => Placement {
  const { appsPlacement, planPlacement, nodeArchitecture } = config;
  return (tier) =>
    onArchitecture(withPlanPlacement(appsPlacement, planPlacement[planOf(config, tier)]), nodeArchitecture);
}

/** Returns how releases run on a cluster, from the configuration. */
export function runtimeOptions(
  config: KubernetesConfig,
  given: Pick<KubernetesRuntimeOptions, "kube" | "log" | "plansOf" | "registryAuth">,
): KubernetesRuntimeOptions {
  return {
    ...given,
    namespacePrefix: config.namespacePrefix,
    watch: config.watch,
    claimsNamespace: config.buildNamespace,
    environmentRole: config.environmentRole,
    serviceAccount: config.serviceAccount,
    apps: {
      domain: config.appsDomain,
      scheme: config.appsScheme,
      port: config.appsPort,
      drainSeconds: config.appsDrainSeconds,
      graceSeconds: config.appsGraceSeconds,
      rolloutDeadlineMs: ROLLOUT_DEADLINE_MS,
      reserved: { storage: 0.1, ...config.appsReserved },
      placementOf: appPlacements(config),
    },
    ingress: {
      enabled: config.ingress === "on",
      className: config.ingressClass,
      annotations: config.ingressAnnotations,
      tlsSecret: config.ingressTlsSecret,
    },
    ...(config.httpRouteParents.length > 0 && {
      httpRoute: {
        enabled: config.httpRoutes === "on",
        parentRefs: config.httpRouteParents,
        annotations: config.httpRouteAnnotations,
        timeouts: config.httpRouteTimeouts,
      },
    }),
    hosts: { issuer: config.domainIssuer, redirectAnnotations: config.domainRedirect },
    network: {
      ingressNamespaceLabels: [config.ingressNamespaceLabels, config.gatewayNamespaceLabels].filter(
        (labels) => labels !== undefined,
      ),
      ingressFromCidrs: config.ingressFromCidrs,
      egressExceptCidrs: config.appsEgressExcept,
      portRanges: config.appsClosedPorts.length > 0,
      metricsPeers: config.metricsPeers,
      closedPorts: config.appsClosedPorts,
      dnsPorts: config.dnsPorts,
      dnsPeers: config.dnsPeers,
      copiesTo: config.addonCopiesTo,
    },
    quota: config.environmentQuota,
    loki: lokiOptions(config),
    prometheusUrl: config.prometheusUrl,
    compareMs: COMPARE_MS,
  };
}
