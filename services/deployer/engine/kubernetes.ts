import { readFile } from "node:fs/promises";
import type { Logger } from "../../kit/log.ts";
import { createKubernetesAddons } from "../addons/kubernetes/adapter.ts";
import { createJobBuilder } from "../builder/job/adapter.ts";
import { jobBuilderOptions } from "../builder/job/config.ts";
import { builtImages } from "../builder/job/registry/built-images.ts";
import type { KubernetesConfig } from "../config.ts";
import { connectKube } from "../kube/client.ts";
import { onArchitecture } from "../kube/placement.ts";
import { lokiOptions } from "../runtime/kubernetes/logs/config.ts";
import { createEnvironments } from "../runtime/kubernetes/namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "../runtime/kubernetes/options.ts";
import { PULL_SECRET } from "../runtime/kubernetes/release/manifests.ts";
import { createKubernetesRuntime } from "../runtime/kubernetes/runtime.ts";
import { createS3Store } from "../store/s3/adapter.ts";
import type { Engine } from "./local.ts";

const COMPARE_MS = 30_000;
const ROLLOUT_DEADLINE_MS = 300_000;

/**
 * Runs everything on the cluster that this process is in: uploads in an S3 bucket, builds as Jobs, releases as
 * Deployments, addons as StatefulSets. It keeps no state of its own, so any number of processes may do the same.
 */
export async function startKubernetesEngine(config: KubernetesConfig, log: Logger): Promise<Engine> {
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
  const { registryAuth, registryPullAuth = registryAuth } = config;
  const options = runtimeOptions(config, {
    kube,
    log,
    registryAuth: registryPullAuth && (await readFile(registryPullAuth, "utf8")),
  });
  const environments = createEnvironments(options);
  const runtime = createKubernetesRuntime(options, environments);
  await Promise.all([store.start(), runtime.start()]);
  const builder = createJobBuilder({
    kube,
    store,
    log,
    ...jobBuilderOptions(config),
  });
  const addonServers = createKubernetesAddons({
    kube,
    log,
    namespacePrefix: config.namespacePrefix,
    ensureNamespace: environments.ensure,
    hasNamespace: environments.has,
    images: config.addonImages,
    storage: { size: config.addonStorageSize, className: config.addonStorageClass },
    ...(registryPullAuth && { pullSecret: PULL_SECRET }),
    // On any architecture: their images are not built here.
    placement: config.appsPlacement,
    user: config.addonUser,
  });
  return {
    runtime,
    builder,
    store,
    addonServers,
    isBuiltImage: builtImages({ push: config.registryPush, pull: config.registryPull }),
    minReadySeconds: 10,
    other: () => false,
    stop: async () => {
      await Promise.all([runtime.stop(), addonServers.stop()]);
      await environments.stop();
    },
  };
}

/** Returns how releases run on a cluster, from the configuration. */
export function runtimeOptions(
  config: KubernetesConfig,
  given: Pick<KubernetesRuntimeOptions, "kube" | "log" | "registryAuth">,
): KubernetesRuntimeOptions {
  return {
    ...given,
    namespacePrefix: config.namespacePrefix,
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
      reserved: config.appsReserved,
      placement: onArchitecture(config.appsPlacement, config.nodeArchitecture),
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
    network: {
      ingressNamespaceLabels: [config.ingressNamespaceLabels, config.gatewayNamespaceLabels].filter(
        (labels) => labels !== undefined,
      ),
      ingressFromCidrs: config.ingressFromCidrs,
      egressExceptCidrs: config.appsEgressExcept,
      closedPorts: config.appsClosedPorts,
      dnsPorts: config.dnsPorts,
    },
    quota: config.environmentQuota,
    loki: lokiOptions(config),
    compareMs: COMPARE_MS,
  };
}
