import { setTimeout as delay } from "node:timers/promises";
import type { V1Deployment } from "@kubernetes/client-node";
import type { Environments } from "../namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { hasOtherDoors } from "../release/doors.ts";
import { readState, serviceIdOf } from "../release/release-annotations.ts";
import { contains, findDrift } from "./drift.ts";
import type { Cache } from "./informer-cache.ts";

/** An apply that is under way looks like drift for a moment. */
const CONFIRM_MS = 2_000;

/** Knows the services of which something was changed or removed since it was applied. */
export function createDriftMonitor(
  options: KubernetesRuntimeOptions,
  environments: Environments,
  cache: Cache,
  changed: (serviceId: string) => void,
) {
  const { kube, log } = options;
  const httpRoutes = options.httpRoute !== undefined;
  const drifted = new Set<string>();
  /** Those that the cluster alters while it takes them (admission webhooks): they never equal what was sent. */
  const altered = new Set<string>();

  return {
    has: (serviceId: string) => drifted.has(serviceId),

    /** Takes note of a Deployment that was just applied. */
    applied(deployment: V1Deployment): void {
      const recorded = readState(deployment);
      const serviceId = serviceIdOf(deployment);
      drifted.delete(serviceId);
      if (!recorded || contains(deployment.spec, recorded.manifests.deployment)) altered.delete(serviceId);
      else altered.add(serviceId);
    },

    /** Compares all services with what was applied, and calls `changed` for those that drifted since the last time. */
    async compare(signal: AbortSignal): Promise<void> {
      for (const namespace of environments.namespaces())
        await compareIn(namespace, signal).catch(
          (err) => signal.aborted || log.warn({ err, namespace }, "could not compare a namespace; retrying"),
        );
    },
  };

  async function compareIn(namespace: string, signal: AbortSignal): Promise<void> {
    const suspects = await findDrift(kube, namespace, cache.listIn(namespace), httpRoutes);
    if (suspects.size > 0) await delay(CONFIRM_MS, undefined, { signal, ref: false });
    const services = cache.listIn(namespace);
    const found = await findDrift(
      kube,
      namespace,
      services.filter(({ recorded }) => suspects.has(recorded.release.serviceId)),
      httpRoutes,
    );
    for (const { recorded } of cache.listIn(namespace)) {
      const { serviceId } = recorded.release;
      const isMoved = hasOtherDoors(recorded.manifests, options);
      const isChanged = found.has(serviceId) && !altered.has(serviceId);
      if (!isMoved && !isChanged) drifted.delete(serviceId);
      else if (!drifted.has(serviceId)) {
        drifted.add(serviceId);
        const why = isMoved ? "is to be reached in another way" : "has been changed";
        log.info({ serviceId, namespace }, `what was applied ${why}; it is being applied again`);
        changed(serviceId);
      }
    }
  }
}
