import { createKubernetesAddons, type KubernetesAddonsOptions } from "../addons/kubernetes/adapter.ts";
import { createEnvironments } from "../runtime/kubernetes/namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "../runtime/kubernetes/options.ts";
import { createKubernetesRuntime } from "../runtime/kubernetes/runtime.ts";

type AddonOptions = Pick<
  KubernetesAddonsOptions,
  "images" | "patchImages" | "storage" | "growTo" | "pullSecret" | "placement" | "user"
>;

/**
 * Returns the runtime and the addon servers of a cluster as one process sees them. Until `start` they watch nothing, and
 * are only for logs, addresses and what needs no look at the cluster.
 */
export function createClusterView(options: KubernetesRuntimeOptions, addons: AddonOptions) {
  const { kube, log, namespacePrefix, watch } = options;
  const environments = createEnvironments(options);
  const runtime = createKubernetesRuntime(options, environments);
  const addonServers = createKubernetesAddons({
    ...{ ...addons, kube, log, namespacePrefix, watch },
    async ensureNamespace(environment) {
      await environments.learnPlan(environment.environmentId);
      await environments.ensure(environment);
    },
    hasNamespace: environments.has,
  });
  return {
    runtime,
    addonServers,
    start: runtime.start,
    stop: async () => void (await Promise.all([runtime.stop(), addonServers.stop()])),
  };
}
