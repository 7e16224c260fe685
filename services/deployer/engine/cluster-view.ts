import { createKubernetesAddons, type KubernetesAddonsOptions } from "../addons/kubernetes/adapter.ts";
import { type CnpgAddonsOptions, createCnpgAddons } from "../addons/kubernetes/cnpg/adapter.ts";
import type { PostgresEngine } from "../addons/kubernetes/config.ts";
import { createAddonEngines } from "../addons/kubernetes/engines.ts";
import { createPoolers, type PoolersOptions } from "../addons/kubernetes/pooler/adapter.ts";
import { imagesOf } from "../addons/kubernetes/versions.ts";
import { createEnvironments } from "../runtime/kubernetes/namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "../runtime/kubernetes/options.ts";
import { createKubernetesRuntime } from "../runtime/kubernetes/runtime.ts";

type AddonOptions = Pick<
  KubernetesAddonsOptions,
  | "images"
  | "earlierImages"
  | "patchImages"
  | "storage"
  | "growTo"
  | "pullSecret"
  | "placement"
  | "user"
  | "dns"
  | "copies"
> & {
  postgres: Pick<CnpgAddonsOptions, "operatorNamespace" | "egress" | "archive" | "emptyArchive"> & {
    engine: PostgresEngine;
  };
  pooler: Pick<PoolersOptions, "image">;
};

type Environment = { accountId: string; projectId: string; environmentId: string };

/**
 * Returns the runtime and the addon servers of a cluster as one process sees them. Until `start` they watch nothing, and
 * are only for logs, addresses and what needs no look at the cluster.
 */
export function createClusterView(options: KubernetesRuntimeOptions, addons: AddonOptions) {
  const { kube, log, namespacePrefix, watch, loki, prometheusUrl } = options;
  const environments = createEnvironments(options);
  const runtime = createKubernetesRuntime(options, environments);
  const common = {
    ...{ ...addons, kube, log, namespacePrefix, watch },
    async ensureNamespace(environment: Environment) {
      await environments.learnPlan(environment.environmentId);
      await environments.ensure(environment);
    },
    hasNamespace: environments.has,
  };
  const { engine, ...operator } = addons.postgres;
  const cnpg =
    engine !== "statefulset" &&
    createCnpgAddons({ ...common, ...operator, images: imagesOf("postgres", addons) });
  const addonServers = createAddonEngines({
    ...{ kube, log, namespacePrefix, loki, prometheusUrl, engine },
    sets: createKubernetesAddons(common),
    ...(cnpg && { cnpg }),
    poolers: createPoolers({ ...common, ...addons.pooler }),
  });
  return {
    runtime,
    addonServers,
    start: runtime.start,
    stop: async () => void (await Promise.all([runtime.stop(), addonServers.stop()])),
  };
}
