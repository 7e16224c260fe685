import { setTimeout as delay } from "node:timers/promises";
import type { KubernetesObject, V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import type { Logger } from "../../../kit/log.ts";
import type { Kube } from "../../kube/client.ts";
import { type Informer, startInformer } from "../../kube/informer.ts";
import * as kinds from "../../kube/kinds.ts";
import { label, selector } from "../../kube/names.ts";
import type { AddonStatus } from "../port.ts";
import { statusOf } from "./pod-status.ts";

/** What is watched of one namespace. */
type View = {
  sets: Informer<V1StatefulSet>;
  pods: Informer<V1Pod>;
  since: number;
  /** When what no watch tells of was looked at, and the addons that lack some of it. */
  checked: number;
  lacking: ReadonlySet<string>;
};

const addonSelector = selector({ [label("kind")]: "addon" });
const SYNC_MS = 10_000;
const CHECK_MS = 300_000;
/** A view of an empty namespace is kept so long: something may be on its way there. */
const EMPTY_MS = 60_000;

/**
 * What is known of the addons in each namespace that was asked for. StatefulSets and pods are watched; whether
 * the rest is whole is looked at every five minutes, which spares three watches for each namespace.
 */
export function createNamespaceWatches(kube: Kube, log: Logger, tell: (serviceId: string) => void) {
  const views = new Map<string, View>();

  function look(namespace: string): View {
    const known = views.get(namespace);
    if (known) return known;
    const changed = ({ metadata }: KubernetesObject) => {
      const serviceId = metadata?.labels?.[label("serviceId")];
      if (serviceId) tell(serviceId);
    };
    const watching = { namespace, labels: addonSelector, changed, log };
    const view: View = {
      sets: startInformer(kube, kinds.StatefulSet, watching),
      pods: startInformer(kube, kinds.Pod, watching),
      since: Date.now(),
      checked: Date.now(),
      lacking: new Set(),
    };
    views.set(namespace, view);
    return view;
  }

  async function check(namespace: string, view: View): Promise<void> {
    const asked = { namespace, labels: addonSelector };
    const [services, policies, secrets] = await Promise.all([
      kube.list(kinds.Service, asked),
      kube.list(kinds.NetworkPolicy, asked),
      kube.list(kinds.Secret, asked),
    ]);
    const ids = [services, policies, secrets].map(
      ({ items }) => new Set(items.map(({ metadata }) => metadata?.labels?.[label("serviceId")])),
    );
    const all = statuses(view).map((one) => one.serviceId);
    view.lacking = new Set(all.filter((id) => ids.some((found) => !found.has(id))));
    view.checked = Date.now();
  }

  function statuses({ sets, pods, lacking }: View): AddonStatus[] {
    return [...sets.objects.values()].flatMap((set) => {
      const status = statusOf(set, pods.objects.get(`${set.metadata?.name}-0`), Date.now());
      if (!status || !lacking.has(status.serviceId)) return status ?? [];
      return { ...status, running: false, problem: { state: "degraded" as const, message: LACKING } };
    });
  }

  return {
    /** Begins to watch a namespace, where it is not watched yet. */
    look,
    /** What is known of a namespace; throws when the API does not tell within ten seconds. */
    async of(namespace: string): Promise<AddonStatus[]> {
      const view = look(namespace);
      const late = delay(SYNC_MS, true, { ref: false });
      const both = Promise.all([view.sets.synced, view.pods.synced]).then(() => false);
      if (await Promise.race([both, late])) throw new Error("the cluster's API does not answer");
      return statuses(view);
    },
    /** Everything that is known; now and then it looks at what no watch tells of. */
    async all(): Promise<AddonStatus[]> {
      for (const [namespace, view] of [...views]) {
        const { sets, pods, since, checked } = view;
        if (sets.objects.size + pods.objects.size === 0 && Date.now() - since > EMPTY_MS) {
          views.delete(namespace);
          await Promise.all([sets.stop(), pods.stop()]);
        } else if (Date.now() - checked > CHECK_MS)
          await check(namespace, view).catch((error) =>
            log.warn({ err: error, namespace }, "could not look at what addons have; it is tried again"),
          );
      }
      return [...views.values()].flatMap(statuses);
    },
    /** The namespace in which a StatefulSet of this name is. */
    where: (set: string) => [...views].find(([, { sets }]) => sets.objects.has(set))?.[0],
    /** The addon has just been brought to what it should be. */
    whole(namespace: string, serviceId: string): void {
      const view = look(namespace);
      view.lacking = new Set([...view.lacking].filter((id) => id !== serviceId));
    },
    async stop(): Promise<void> {
      await Promise.all([...views.values()].flatMap(({ sets, pods }) => [sets.stop(), pods.stop()]));
      views.clear();
    },
  };
}

const LACKING = "Something that belongs to it is missing in the cluster; it is made again.";
