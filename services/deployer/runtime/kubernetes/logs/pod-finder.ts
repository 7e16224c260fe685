import type { V1Pod } from "@kubernetes/client-node";
import { isStatus, type Kube } from "../../../kube/client.ts";
import { Pod } from "../../../kube/kinds.ts";
import { selector } from "../../../kube/names.ts";
import { startInformer } from "../../../kube/watch/informer.ts";
import type { Logger } from "../../../shared/logger.ts";
import { podFacts } from "../observe/status/pod-facts.ts";
import type { LoggedPod } from "./log-read.ts";
import type { LogSource } from "./log-source.ts";

/** An existing service whose logs are read, and its pods. */
export type LoggedService = { source: LogSource; pods: LoggedPod[] };

/** Finds services and their pods, without the watches by which one process decides. */
export function createPodFinder({ kube, log }: { kube: Kube; log: Logger }) {
  const ownerOf = ({ namespace, owner: { kind, labels } }: LogSource) =>
    kube.list(kind, { namespace, labels: selector(labels) }).catch(emptyIfNoNamespace);

  const toService = (source: LogSource, pods: Iterable<V1Pod>): LoggedService => ({
    source,
    pods: [...pods]
      .filter(({ spec }) => spec?.containers.some(({ name }) => name === source.container))
      .map((pod) => {
        const { name, uid, version, restarts } = podFacts(pod);
        return { source, name, uid, restarts, version: source.versioned ? version : 0 };
      }),
  });

  return {
    /** Returns a service as it is now; undefined where there is none. */
    async find(source: LogSource): Promise<LoggedService | undefined> {
      const { namespace, pods: labels } = source;
      const [owners, pods] = await Promise.all([
        ownerOf(source),
        kube.list(Pod, { namespace, labels: selector(labels) }).catch(emptyIfNoNamespace),
      ]);
      return owners.items.length > 0 ? toService(source, pods.items) : undefined;
    },

    /** Watches a service; undefined when there is none, or the signal aborts. */
    async follow(source: LogSource, signal: AbortSignal) {
      const { namespace, owner } = source;
      const { items } = await ownerOf(source);
      if (items.length === 0 || signal.aborted) return undefined;
      const watch = (labels: Record<string, string>) => ({
        ...{ namespace, labels: selector(labels), log, changed: () => {} },
      });
      const owners = startInformer(kube, owner.kind, watch(owner.labels));
      const pods = startInformer(kube, Pod, watch(source.pods));
      const stop = async () => void (await Promise.all([owners.stop(), pods.stop()]));
      const abort = () => void stop();
      signal.addEventListener("abort", abort, { once: true });
      await Promise.all([owners.synced, pods.synced]);
      return {
        /** Returns the service as last seen; undefined once it is removed. */
        now: (): LoggedService | undefined =>
          owners.objects.size > 0 ? toService(source, pods.objects.values()) : undefined,
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
