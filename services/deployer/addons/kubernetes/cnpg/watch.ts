import { setTimeout as delay } from "node:timers/promises";
import type { KubernetesObject, V1Pod } from "@kubernetes/client-node";
import type { Kube } from "../../../kube/client.ts";
import * as kinds from "../../../kube/kinds.ts";
import { label, selector } from "../../../kube/names.ts";
import { startWatches, type Watches, type WatchScope } from "../../../kube/watch/watches.ts";
import type { Logger } from "../../../shared/logger.ts";
import type { AddonStatus } from "../../port.ts";
import type { Patchable } from "../patches.ts";
import { MOVED } from "../server/annotations.ts";
import { CLUSTER } from "./manifests.ts";
import { clusterStatus, isWhole } from "./status.ts";

type WatchOptions = {
  kube: Kube;
  log: Logger;
  watch: WatchScope;
  hasNamespace: (namespace: string) => boolean;
  checkMs?: number;
};

type Started = { clusters: Watches<kinds.PostgresClusterObject>; pods: Watches<V1Pod> };
type Space = { startedAt: number; checkedAt: number; incomplete: ReadonlySet<string> };

const ADDONS = selector({ [label("kind")]: "addon" });
const INSTANCES = selector({ [label("kind")]: "instance" });
const SYNC_MS = 10_000;
const CHECK_MS = 300_000;
/** How long an empty namespace is watched: an addon may be about to appear in it. */
const EMPTY_MS = 60_000;
const INCOMPLETE = "Something that belongs to the addon is missing in the cluster and is being restored.";

/**
 * Knows the Clusters of each namespace that was asked about, and their pods. What else belongs to an addon is listed every
 * five minutes.
 */
export function watchClusters(
  { kube, log, watch: scope, hasNamespace, checkMs = CHECK_MS }: WatchOptions,
  changed: (serviceId: string) => void,
) {
  const spaces = new Map<string, Space>();
  let started: Started | undefined;

  /** Begins to watch when an addon is asked about for the first time. */
  function watched(): Started {
    const onChange = ({ metadata }: KubernetesObject) => {
      const serviceId = metadata?.labels?.[label("serviceId")];
      if (serviceId) changed(serviceId);
    };
    const options = { scope, changed: onChange, log };
    started ??= {
      clusters: startWatches(kube, kinds.PostgresCluster, { ...options, labels: ADDONS }),
      pods: startWatches(kube, kinds.Pod, { ...options, labels: INSTANCES }),
    };
    return started;
  }

  function watchNamespace(namespace: string): Space {
    const existing = spaces.get(namespace);
    if (existing) return existing;
    const { clusters, pods } = watched();
    clusters.add(namespace);
    pods.add(namespace);
    const space = { startedAt: Date.now(), checkedAt: Date.now(), incomplete: new Set<string>() };
    spaces.set(namespace, space);
    return space;
  }

  /** Returns the Clusters of a namespace, each with its pods. */
  function clustersIn(namespace: string) {
    const { clusters, pods } = watched();
    const all = [...pods.in(namespace).values()];
    return [...clusters.in(namespace).values()].map((cluster) => ({
      cluster,
      own: all.filter(({ metadata }) => metadata?.labels?.[CLUSTER] === cluster.metadata?.name),
    }));
  }

  function statusesOf(namespace: string): AddonStatus[] {
    const incomplete = spaces.get(namespace)?.incomplete;
    return clustersIn(namespace).flatMap(({ cluster, own }) => {
      const status = clusterStatus(cluster, own, Date.now());
      if (!status || !incomplete?.has(status.serviceId)) return status ?? [];
      return { ...status, running: false, problem: { state: "degraded" as const, message: INCOMPLETE } };
    });
  }

  async function findIncomplete(namespace: string, space: Space): Promise<void> {
    const query = { namespace, labels: ADDONS };
    const lists = await Promise.all([
      kube.listMetadata(kinds.Service, query),
      kube.listMetadata(kinds.NetworkPolicy, query),
      kube.listMetadata(kinds.Secret, query),
    ]);
    const owners = lists.map((objects) => new Set(objects.map(({ labels }) => labels?.[label("serviceId")])));
    const serviceIds = statusesOf(namespace).map(({ serviceId }) => serviceId);
    // It may no longer be watched by now: it is not put back.
    space.incomplete = new Set(serviceIds.filter((id) => owners.some((ids) => !ids.has(id))));
    space.checkedAt = Date.now();
  }

  return {
    /** Returns the addons of a namespace, and watches it from now on. Throws when the API does not answer in 10 s. */
    async listIn(namespace: string): Promise<AddonStatus[]> {
      if (!hasNamespace(namespace)) return [];
      watchNamespace(namespace);
      const { clusters, pods } = watched();
      const late = delay(SYNC_MS, true, { ref: false });
      const synced = Promise.all([clusters.synced(namespace), pods.synced(namespace)]).then(() => false);
      if (await Promise.race([synced, late])) throw new Error("the cluster's API does not answer");
      return statusesOf(namespace);
    },
    /** Returns the addons of all namespaces that are watched. Stops watching empty and removed ones, lists what is due. */
    async list(): Promise<AddonStatus[]> {
      for (const [namespace, space] of [...spaces]) {
        const { clusters, pods } = watched();
        const empty = clusters.in(namespace).size + pods.in(namespace).size === 0;
        if (!hasNamespace(namespace) || (empty && Date.now() - space.startedAt > EMPTY_MS)) {
          spaces.delete(namespace);
          clusters.remove(namespace);
          pods.remove(namespace);
        } else if (Date.now() - space.checkedAt > checkMs)
          await findIncomplete(namespace, space).catch((error) =>
            log.warn({ err: error, namespace }, "could not look at the objects of addons; retrying"),
          );
      }
      return [...spaces.keys()].flatMap(statusesOf);
    },
    /** Returns the servers of all namespaces that are watched, as patch releases see them. */
    servers: (): Patchable[] =>
      [...spaces.keys()].flatMap(clustersIn).flatMap(({ cluster, own }) => {
        const status = clusterStatus(cluster, own, Date.now());
        const serves = status?.running === true && isWhole(cluster, own);
        const { [MOVED]: moved } = cluster.metadata?.annotations ?? {};
        return status ? { ...status, image: cluster.spec?.imageName, serves, moved } : [];
      }),
    /** Returns the namespace of a Cluster. */
    namespaceOf: (name: string) =>
      [...spaces.keys()].find((namespace) => watched().clusters.in(namespace).has(name)),
    /** Records that all objects of an addon have just been applied. */
    markComplete(namespace: string, serviceId: string): void {
      const space = watchNamespace(namespace);
      space.incomplete = new Set([...space.incomplete].filter((id) => id !== serviceId));
    },
    async stop(): Promise<void> {
      await Promise.all([started?.clusters.stop(), started?.pods.stop()]);
      spaces.clear();
    },
  };
}
