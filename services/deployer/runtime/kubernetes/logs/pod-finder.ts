import type { V1Pod } from "@kubernetes/client-node";
import { isStatus } from "../../../kube/client.ts";
import { Deployment, Pod } from "../../../kube/kinds.ts";
import { namespaceOf, selector } from "../../../kube/names.ts";
import { startInformer } from "../../../kube/watch/informer.ts";
import { selectorOf } from "../app-pods.ts";
import { podFacts } from "../observe/status/pod-facts.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import type { LoggedPod } from "./log-read.ts";

/** An existing service whose logs are read, and its pods. */
export type LoggedService = { serviceId: string; namespace: string; pods: LoggedPod[] };

/** Finds services and their pods, without the watches by which one process decides. */
export function createPodFinder({ kube, log, namespacePrefix }: KubernetesRuntimeOptions) {
  const whereIs = (environmentId: string, serviceId: string) => ({
    namespace: namespaceOf(namespacePrefix, environmentId),
    labels: selector(selectorOf(serviceId)),
  });

  const toService = (serviceId: string, namespace: string, pods: Iterable<V1Pod>): LoggedService => ({
    serviceId,
    namespace,
    pods: [...pods].map((pod) => ({ namespace, ...podFacts(pod) })),
  });

  return {
    /** Returns a service as it is now; undefined where there is none. */
    async find(environmentId: string, serviceId: string): Promise<LoggedService | undefined> {
      const query = whereIs(environmentId, serviceId);
      const [deployments, pods] = await Promise.all([
        kube.list(Deployment, query).catch(emptyIfNoNamespace),
        kube.list(Pod, query).catch(emptyIfNoNamespace),
      ]);
      return deployments.items.length > 0 ? toService(serviceId, query.namespace, pods.items) : undefined;
    },

    /** Watches a service; undefined when there is none, or the signal aborts. */
    async follow(environmentId: string, serviceId: string, signal: AbortSignal) {
      const query = whereIs(environmentId, serviceId);
      const { items } = await kube.list(Deployment, query).catch(emptyIfNoNamespace);
      if (items.length === 0 || signal.aborted) return undefined;
      const watched = { ...query, log, changed: () => {} };
      const deployments = startInformer(kube, Deployment, watched);
      const pods = startInformer(kube, Pod, watched);
      const stop = async () => void (await Promise.all([deployments.stop(), pods.stop()]));
      const abort = () => void stop();
      signal.addEventListener("abort", abort, { once: true });
      await Promise.all([deployments.synced, pods.synced]);
      return {
        /** Returns the service as last seen; undefined once it is removed. */
        now: (): LoggedService | undefined =>
          deployments.objects.size > 0
            ? toService(serviceId, query.namespace, pods.objects.values())
            : undefined,
        stop: async () => {
          signal.removeEventListener("abort", abort);
          await stop();
        },
      };
    },
  };
}

/** The deployer has no rights in a namespace that it has not created yet. */
function emptyIfNoNamespace(error: unknown): { items: never[] } {
  if (isStatus(error, 403, 404)) return { items: [] };
  throw error;
}
