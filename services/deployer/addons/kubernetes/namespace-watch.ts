import { setTimeout as delay } from "node:timers/promises";
import type { KubernetesObject, V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import type { Logger } from "../../../kit/log.ts";
import type { Kube } from "../../kube/client.ts";
import { type Informer, startInformer } from "../../kube/informer.ts";
import * as kinds from "../../kube/kinds.ts";
import { label, selector } from "../../kube/names.ts";
import type { AddonStatus } from "../port.ts";
import { addonStatus } from "./pod-status.ts";

type NamespaceWatch = {
  sets: Informer<V1StatefulSet>;
  pods: Informer<V1Pod>;
  startedAt: number;
  /** When the objects that are not watched were last listed, and the services that lacked one of them. */
  checkedAt: number;
  incomplete: ReadonlySet<string>;
};

const ADDONS = selector({ [label("kind")]: "addon" });
const SYNC_MS = 10_000;
const CHECK_MS = 300_000;
/** An empty namespace is watched for so long, because an addon may be about to appear in it. */
const EMPTY_MS = 60_000;
const INCOMPLETE = "Something that belongs to the addon is missing in the cluster and is being restored.";

/**
 * Knows the addons of each namespace that was asked about. StatefulSets and pods are watched; Services, policies and
 * Secrets are listed every five minutes, which saves three watches per namespace.
 */
export function createNamespaceWatches(
  kube: Kube,
  log: Logger,
  hasNamespace: (namespace: string) => boolean,
  changed: (serviceId: string) => void,
) {
  const watches = new Map<string, NamespaceWatch>();

  function watchNamespace(namespace: string): NamespaceWatch {
    const existing = watches.get(namespace);
    if (existing) return existing;
    const onChange = ({ metadata }: KubernetesObject) => {
      const serviceId = metadata?.labels?.[label("serviceId")];
      if (serviceId) changed(serviceId);
    };
    const options = { namespace, labels: ADDONS, changed: onChange, log };
    const watch: NamespaceWatch = {
      sets: startInformer(kube, kinds.StatefulSet, options),
      pods: startInformer(kube, kinds.Pod, options),
      startedAt: Date.now(),
      checkedAt: Date.now(),
      incomplete: new Set(),
    };
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
    const serviceIds = statusesOf(watch).map(({ serviceId }) => serviceId);
    watch.incomplete = new Set(serviceIds.filter((id) => owners.some((ids) => !ids.has(id))));
    watch.checkedAt = Date.now();
  }

  function statusesOf({ sets, pods, incomplete }: NamespaceWatch): AddonStatus[] {
    return [...sets.objects.values()].flatMap((set) => {
      const status = addonStatus(set, pods.objects.get(`${set.metadata?.name}-0`), Date.now());
      if (!status || !incomplete.has(status.serviceId)) return status ?? [];
      return { ...status, running: false, problem: { state: "degraded" as const, message: INCOMPLETE } };
    });
  }

  return {
    /** Returns the addons of a namespace, and watches it from now on. Throws when the API does not answer in 10 s. */
    async listIn(namespace: string): Promise<AddonStatus[]> {
      if (!hasNamespace(namespace)) return [];
      const watch = watchNamespace(namespace);
      const late = delay(SYNC_MS, true, { ref: false });
      const synced = Promise.all([watch.sets.synced, watch.pods.synced]).then(() => false);
      if (await Promise.race([synced, late])) throw new Error("the cluster's API does not answer");
      return statusesOf(watch);
    },
    /** Returns the addons of all namespaces that are watched. Stops watching empty and removed ones, lists what is due. */
    async list(): Promise<AddonStatus[]> {
      for (const [namespace, watch] of [...watches]) {
        const { sets, pods, startedAt, checkedAt } = watch;
        const empty = sets.objects.size + pods.objects.size === 0;
        if (!hasNamespace(namespace) || (empty && Date.now() - startedAt > EMPTY_MS)) {
          watches.delete(namespace);
          await Promise.all([sets.stop(), pods.stop()]);
        } else if (Date.now() - checkedAt > CHECK_MS)
          await findIncomplete(namespace, watch).catch((error) =>
            log.warn({ err: error, namespace }, "could not list the objects of addons; retrying"),
          );
      }
      return [...watches.values()].flatMap(statusesOf);
    },
    /** Returns the namespace of a StatefulSet. */
    namespaceOf: (set: string) => [...watches].find(([, { sets }]) => sets.objects.has(set))?.[0],
    /** Takes note that all objects of an addon have just been applied. */
    markComplete(namespace: string, serviceId: string): void {
      const watch = watchNamespace(namespace);
      watch.incomplete = new Set([...watch.incomplete].filter((id) => id !== serviceId));
    },
    async stop(): Promise<void> {
      await Promise.all([...watches.values()].flatMap(({ sets, pods }) => [sets.stop(), pods.stop()]));
      watches.clear();
    },
  };
}
