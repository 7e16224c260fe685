import { setTimeout as delay } from "node:timers/promises";
import type { KubernetesObject, V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import type { Kube } from "../../kube/client.ts";
import * as kinds from "../../kube/kinds.ts";
import { label, selector } from "../../kube/names.ts";
import { startWatches, type Watches, type WatchScope } from "../../kube/watch/watches.ts";
import type { Logger } from "../../shared/logger.ts";
import type { AddonStatus } from "../port.ts";
import type { Server } from "./patches.ts";
import { addonStatus } from "./server/pod-status.ts";
import { growVolumes } from "./server/volumes.ts";

type WatchOptions = {
  kube: Kube;
  log: Logger;
  watch: WatchScope;
  hasNamespace: (namespace: string) => boolean;
  /** To what size the volumes of running servers grow; they keep theirs unless given. */
  growTo?: string;
  checkMs?: number;
};

type NamespaceWatch = {
  startedAt: number;
  /** When the objects that are not watched were last listed, and the services that lacked one of them. */
  checkedAt: number;
  incomplete: ReadonlySet<string>;
};

const ADDONS = selector({ [label("kind")]: "addon" });
const SYNC_MS = 10_000;
const CHECK_MS = 300_000;
/** How long an empty namespace is watched: an addon may be about to appear in it. */
const EMPTY_MS = 60_000;
const INCOMPLETE = "Something that belongs to the addon is missing in the cluster and is being restored.";

/**
 * Knows the addons of each namespace that was asked about. StatefulSets and pods are watched; the metadata of Services,
 * policies and Secrets is listed every five minutes, which needs fewer rights and watches; and the volumes, if they grow.
 */
export function createNamespaceWatches(
  { kube, log, watch: scope, hasNamespace, growTo, checkMs = CHECK_MS }: WatchOptions,
  changed: (serviceId: string) => void,
) {
  const watches = new Map<string, NamespaceWatch>();
  let started: { sets: Watches<V1StatefulSet>; pods: Watches<V1Pod> } | undefined;

  /** Begins to watch when an addon is asked about for the first time. */
  function watched() {
    const onChange = ({ metadata }: KubernetesObject) => {
      const serviceId = metadata?.labels?.[label("serviceId")];
      if (serviceId) changed(serviceId);
    };
    const options = { scope, labels: ADDONS, changed: onChange, log };
    started ??= {
      sets: startWatches(kube, kinds.StatefulSet, options),
      pods: startWatches(kube, kinds.Pod, options),
    };
    return started;
  }

  function watchNamespace(namespace: string): NamespaceWatch {
    const existing = watches.get(namespace);
    if (existing) return existing;
    const { sets, pods } = watched();
    sets.add(namespace);
    pods.add(namespace);
    const watch: NamespaceWatch = { startedAt: Date.now(), checkedAt: Date.now(), incomplete: new Set() };
    watches.set(namespace, watch);
    return watch;
  }

  async function findIncomplete(namespace: string, watch: NamespaceWatch): Promise<void> {
    const query = { namespace, labels: ADDONS };
    const lists = await Promise.all([
      kube.listMetadata(kinds.Service, query),
      kube.listMetadata(kinds.NetworkPolicy, query),
      kube.listMetadata(kinds.Secret, query),
    ]);
    const owners = lists.map((objects) => new Set(objects.map(({ labels }) => labels?.[label("serviceId")])));
    const serviceIds = statusesOf(namespace).map(({ serviceId }) => serviceId);
    watch.incomplete = new Set(serviceIds.filter((id) => owners.some((ids) => !ids.has(id))));
    watch.checkedAt = Date.now();
  }

  async function check(namespace: string, watch: NamespaceWatch): Promise<void> {
    await findIncomplete(namespace, watch);
    if (growTo) await growVolumes({ kube, log, size: growTo }, { namespace, labels: ADDONS });
  }

  function statusesOf(namespace: string): AddonStatus[] {
    const { sets, pods } = watched();
    const incomplete = watches.get(namespace)?.incomplete;
    return [...sets.in(namespace).values()].flatMap((set) => {
      const status = addonStatus(set, pods.in(namespace).get(`${set.metadata?.name}-0`), Date.now());
      if (!status || !incomplete?.has(status.serviceId)) return status ?? [];
      return { ...status, running: false, problem: { state: "degraded" as const, message: INCOMPLETE } };
    });
  }

  return {
    /** Returns the addons of a namespace, and watches it from now on. Throws when the API does not answer in 10 s. */
    async listIn(namespace: string): Promise<AddonStatus[]> {
      if (!hasNamespace(namespace)) return [];
      watchNamespace(namespace);
      const { sets, pods } = watched();
      const late = delay(SYNC_MS, true, { ref: false });
      const synced = Promise.all([sets.synced(namespace), pods.synced(namespace)]).then(() => false);
      if (await Promise.race([synced, late])) throw new Error("the cluster's API does not answer");
      return statusesOf(namespace);
    },
    /** Returns the addons of all namespaces that are watched. Stops watching empty and removed ones, lists what is due. */
    async list(): Promise<AddonStatus[]> {
      const { sets, pods } = watched();
      for (const [namespace, watch] of [...watches]) {
        const empty = sets.in(namespace).size + pods.in(namespace).size === 0;
        if (!hasNamespace(namespace) || (empty && Date.now() - watch.startedAt > EMPTY_MS)) {
          watches.delete(namespace);
          sets.remove(namespace);
          pods.remove(namespace);
        } else if (Date.now() - watch.checkedAt > checkMs)
          await check(namespace, watch).catch((error) =>
            log.warn({ err: error, namespace }, "could not look at the objects of addons; retrying"),
          );
      }
      return [...watches.keys()].flatMap(statusesOf);
    },
    /** Returns the servers of all namespaces that are watched. */
    servers(): Server[] {
      const { sets, pods } = watched();
      return [...watches.keys()].flatMap((namespace) =>
        [...sets.in(namespace).values()].map((set) => ({
          set,
          pod: pods.in(namespace).get(`${set.metadata?.name}-0`),
        })),
      );
    },
    /** Returns the namespace of a StatefulSet. */
    namespaceOf: (set: string) =>
      [...watches.keys()].find((namespace) => watched().sets.in(namespace).has(set)),
    /** Records that all objects of an addon have just been applied. */
    markComplete(namespace: string, serviceId: string): void {
      const watch = watchNamespace(namespace);
      watch.incomplete = new Set([...watch.incomplete].filter((id) => id !== serviceId));
    },
    async stop(): Promise<void> {
      await Promise.all([started?.sets.stop(), started?.pods.stop()]);
      watches.clear();
    },
  };
}
