import { setTimeout as delay } from "node:timers/promises";
import { PodMetrics, type PodMetricsObject } from "../../../kube/kinds.ts";
import { label, selector } from "../../../kube/names.ts";
import { bytesOf, coresOf } from "../../../kube/pods/resources.ts";
import type { Measurable, Measurement } from "../../../terms/measurement.ts";
import type { Environments } from "../namespace/namespaces.ts";
import type { Cache } from "../observe/informer-cache.ts";
import { isAvailable, type Observation, replicasOf } from "../observe/status/status.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { serviceIdOf } from "../release/release-annotations.ts";

/** Shorter than other requests to the API may take: a deployer that stops waits for it. */
const ANSWER_MS = 10_000;
const APPS = selector({ [label("kind")]: "app" });

const NO_USE =
  "The cluster has not reported it for this service in this time; it does so if metrics-server is installed.";
const NO_PROMETHEUS = "It comes from a Prometheus, and this installation names none.";

/** Why something may not be measured on this cluster. */
export function unmeasuredOn(prometheus: boolean): Partial<Record<Measurable, string>> {
  const why = (needs: string) =>
    prometheus
      ? `The installation's Prometheus has no values of this service in this time; ${needs}.`
      : NO_PROMETHEUS;
  return {
    ...{ cpu: NO_USE, memory: NO_USE },
    network: why("they are metrics of cAdvisor"),
    requests: why("they are metrics of ingress-nginx"),
  };
}

/** Measures services by the watches of pods, and by what metrics-server says of them. */
export function createMeasuring(
  { kube, log, watch }: KubernetesRuntimeOptions,
  environments: Environments,
  cache: Cache,
) {
  let failing = false;

  async function listPodMetrics(namespaces: string[]): Promise<PodMetricsObject[]> {
    if (watch === "cluster") return (await kube.list(PodMetrics, { labels: APPS })).items;
    const lists = namespaces.map((namespace) =>
      kube.inTurn(() => kube.list(PodMetrics, { namespace, labels: APPS })),
    );
    return (await Promise.all(lists)).flatMap(({ items }) => items);
  }

  /** What is known without it is measured also while metrics-server does not answer. */
  async function listIfAnswered(namespaces: string[]): Promise<PodMetricsObject[]> {
    try {
      const late = delay(ANSWER_MS, undefined, { ref: false }).then(() => {
        throw new Error(`no answer within ${ANSWER_MS} ms`);
      });
      const listed = await Promise.race([listPodMetrics(namespaces), late]);
      failing = false;
      return listed;
    } catch (err) {
      if (!failing) log.warn({ err }, "could not read what pods use from metrics.k8s.io; retrying");
      failing = true;
      return [];
    }
  }

  return async (): Promise<Measurement[]> => {
    const services = environments
      .namespaces()
      .map((namespace) => ({ namespace, observed: cache.listIn(namespace) }))
      .filter(({ observed }) => observed.length > 0);
    const listed = await listIfAnswered(services.map(({ namespace }) => namespace));
    const used = Map.groupBy(listed, serviceIdOf);
    const now = Date.now();
    return services
      .flatMap(({ observed }) => observed)
      .map((one) => toMeasurement(one, used.get(one.recorded.release.serviceId) ?? [], now));
  };
}

/** Returns what is measured of a service, from what is seen of it and what its pods use; pure. */
export function toMeasurement(seen: Observation, used: PodMetricsObject[], now: number): Measurement {
  const { applied, older } = replicasOf(seen);
  const containers = used.flatMap((pod) => pod.containers ?? []);
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  return {
    serviceId: seen.recorded.release.serviceId,
    replicas: [...applied, ...older].filter((pod) => isAvailable(pod, seen.recorded, now)).length,
    ...(containers.length > 0 && {
      cores: sum(containers.map(({ usage }) => coresOf(usage.cpu))),
      memory: sum(containers.map(({ usage }) => bytesOf(usage.memory))),
    }),
    counters: seen.pods.map(({ uid, createdAt, restarts }) => ({
      source: uid,
      since: createdAt,
      restarts,
    })),
  };
}
