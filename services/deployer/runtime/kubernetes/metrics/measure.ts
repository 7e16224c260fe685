import { createPodUsage, type PodUsage } from "../../../kube/pods/pod-usage.ts";
import type { Measurable, Measurement } from "../../../terms/measurement.ts";
import type { Environments } from "../namespace/namespaces.ts";
import type { Cache } from "../observe/informer-cache.ts";
import { isAvailable, type Observation, replicasOf } from "../observe/status/status.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";

const NO_USE =
  "The cluster has not reported it for this service in this time; it does so if metrics-server is installed.";
const NO_PROMETHEUS = "It comes from a Prometheus, and this installation names none.";
const NO_CONNECTION = "On a cluster, Berth does not connect to the servers of addons to measure them.";

/** Why something may not be measured on this cluster. */
export function unmeasuredOn(prometheus: boolean): Partial<Record<Measurable, string>> {
  const why = (needs: string) =>
    prometheus
      ? `The installation's Prometheus has no values of this service in this time; ${needs}.`
      : NO_PROMETHEUS;
  const ofVolumes = why("they are metrics of the kubelet, which not every storage has");
  return {
    ...{ cpu: NO_USE, memory: NO_USE },
    network: why("they are metrics of cAdvisor"),
    requests: why("they are metrics of ingress-nginx"),
    ...{ storage: ofVolumes, capacity: ofVolumes, connections: NO_CONNECTION },
  };
}

/** Measures services by the watches of pods, and by what metrics-server says of them. */
export function createMeasuring(options: KubernetesRuntimeOptions, environments: Environments, cache: Cache) {
  const readUsage = createPodUsage(options, "app");
  return async (): Promise<Measurement[]> => {
    const services = environments
      .namespaces()
      .map((namespace) => ({ namespace, observed: cache.listIn(namespace) }))
      .filter(({ observed }) => observed.length > 0);
    // What is known without it is measured also while metrics-server does not answer.
    const used = await readUsage(services.map(({ namespace }) => namespace));
    const now = Date.now();
    return services
      .flatMap(({ observed }) => observed)
      .map((one) => toMeasurement(one, used.get(one.recorded.release.serviceId), now));
  };
}

/** Returns what is measured of a service, from what is seen of it and what its pods use; pure. */
export function toMeasurement(seen: Observation, used: PodUsage | undefined, now: number): Measurement {
  const { applied, older } = replicasOf(seen);
  return {
    serviceId: seen.recorded.release.serviceId,
    replicas: [...applied, ...older].filter((pod) => isAvailable(pod, seen.recorded, now)).length,
    ...used,
    counters: seen.pods.map(({ uid, createdAt, restarts }) => ({
      source: uid,
      since: createdAt,
      restarts,
    })),
  };
}
