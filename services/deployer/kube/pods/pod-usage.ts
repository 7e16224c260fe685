import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../shared/logger.ts";
import type { Kube } from "../client.ts";
import { PodMetrics, type PodMetricsObject } from "../kinds.ts";
import { label, selector } from "../names.ts";
import type { WatchScope } from "../watch/watches.ts";
import { bytesOf, coresOf } from "./resources.ts";

/** What the pods of a service use: cores, and bytes of memory. */
export type PodUsage = { cores: number; memory: number };

/** Shorter than other requests to the API may take: a deployer that stops waits for it. */
const ANSWER_MS = 10_000;

/**
 * Returns a function that reads from metrics-server what the pods of each service use in these namespaces, by the service's
 * id; of pods with this label `kind`. While metrics-server does not answer, nothing is known, which is logged once.
 */
export function createPodUsage(
  { kube, log, watch }: { kube: Kube; log: Logger; watch: WatchScope },
  kind: string,
) {
  const labels = selector({ [label("kind")]: kind });
  let failing = false;

  async function listPodMetrics(namespaces: string[]): Promise<PodMetricsObject[]> {
    if (watch === "cluster") return (await kube.list(PodMetrics, { labels })).items;
    const lists = namespaces.map((namespace) =>
      kube.inTurn(() => kube.list(PodMetrics, { namespace, labels })),
    );
    return (await Promise.all(lists)).flatMap(({ items }) => items);
  }

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

  return async (namespaces: string[]): Promise<ReadonlyMap<string, PodUsage>> => {
    const listed = await listIfAnswered(namespaces);
    const pods = Map.groupBy(listed, ({ metadata }) => metadata?.labels?.[label("serviceId")] ?? "");
    return new Map([...pods].flatMap(([serviceId, own]) => toEntry(serviceId, sumUsage(own))));
  };
}

const toEntry = (serviceId: string, usage: PodUsage | undefined): [string, PodUsage][] =>
  usage ? [[serviceId, usage]] : [];

/** Returns what pods use together; undefined while nothing was measured. */
export function sumUsage(pods: PodMetricsObject[]): PodUsage | undefined {
  const containers = pods.flatMap((pod) => pod.containers ?? []);
  if (containers.length === 0) return undefined;
  return {
    cores: containers.reduce((sum, { usage }) => sum + coresOf(usage.cpu), 0),
    memory: containers.reduce((sum, { usage }) => sum + bytesOf(usage.memory), 0),
  };
}
