import type { V1Deployment, V1Pod } from "@kubernetes/client-node";
import { type Informer, startInformer } from "../../../kube/informer.ts";
import { Deployment, Pod } from "../../../kube/kinds.ts";
import { label, selector } from "../../../kube/names.ts";
import type { LoggedPod } from "../logs/log-read.ts";
import type { Environments } from "../namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { selectorOf } from "../release/manifests.ts";
import { readState, serviceIdOf } from "../release/release-annotations.ts";
import { podFacts } from "./pod-facts.ts";
import type { Observation } from "./status.ts";

export type Cache = ReturnType<typeof createCache>;

const APPS = selector({ [label("kind")]: "app" });
/** A namespace that cannot be looked into does not keep the others waiting. */
const SYNC_MS = 10_000;

/** What runs in all environments, kept at hand by watches; and the same read afresh. */
export function createCache(
  { kube, log }: KubernetesRuntimeOptions,
  environments: Environments,
  changed: (serviceId: string) => void,
) {
  type Held = { deployments: Informer<V1Deployment>; pods: Informer<V1Pod> };
  const held = new Map<string, Held>();
  /** Where a service is; it never moves. */
  const places = new Map<string, { namespace: string; name: string }>();

  function onNamespaceAdded(namespace: string): void {
    if (held.has(namespace)) return;
    const common = { namespace, labels: APPS, log };
    const deployments = startInformer(kube, Deployment, {
      ...common,
      changed(object) {
        remember(object);
        changed(serviceIdOf(object));
      },
    });
    const pods = startInformer(kube, Pod, { ...common, changed: (pod) => changed(serviceIdOf(pod)) });
    held.set(namespace, { deployments, pods });
  }

  function onNamespaceRemoved(namespace: string): void {
    const informers = held.get(namespace);
    held.delete(namespace);
    void informers?.deployments.stop();
    void informers?.pods.stop();
  }

  function remember({ metadata }: V1Deployment): void {
    const { name = "", namespace = "" } = metadata ?? {};
    places.set(serviceIdOf({ metadata }), { namespace, name });
  }

  function observe(deployment: V1Deployment, pods: V1Pod[]): Observation | undefined {
    const recorded = readState(deployment);
    return recorded && { deployment, recorded, pods: pods.map(podFacts) };
  }

  return {
    async start(): Promise<void> {
      await environments.synced;
      environments.watch({ onNamespaceAdded, onNamespaceRemoved });
      const all = [...held.values()].flatMap(({ deployments, pods }) => [deployments.synced, pods.synced]);
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, SYNC_MS);
      await Promise.race([Promise.all(all), late]);
      clearTimeout(timer);
    },

    remember,

    place: (serviceId: string) => places.get(serviceId),

    /** What is known of a service, perhaps a moment old. */
    cached(serviceId: string): Observation | undefined {
      const { namespace = "", name = "" } = places.get(serviceId) ?? {};
      const informers = held.get(namespace);
      const deployment = informers?.deployments.objects.get(name);
      if (!informers || !deployment || serviceIdOf(deployment) !== serviceId) return undefined;
      const pods = [...informers.pods.objects.values()].filter((pod) => serviceIdOf(pod) === serviceId);
      return observe(deployment, pods);
    },

    /** All services of a namespace. */
    all(namespace: string): Observation[] {
      const informers = held.get(namespace);
      const pods = Map.groupBy(informers?.pods.objects.values() ?? [], serviceIdOf);
      return [...(informers?.deployments.objects.values() ?? [])]
        .map((one) => observe(one, pods.get(serviceIdOf(one)) ?? []))
        .filter((one) => one !== undefined);
    },

    /** What the cluster says now. The pods are no older than the notes, which tell of pods. */
    async read(serviceId: string): Promise<Observation | undefined> {
      const { namespace = "", name = "" } = places.get(serviceId) ?? {};
      if (!name) return undefined;
      const deployment = await kube.get(Deployment, name, namespace);
      if (!deployment || serviceIdOf(deployment) !== serviceId) return undefined;
      const pods = await kube.list(Pod, { namespace, labels: selector(selectorOf(serviceId)) });
      return observe(deployment, pods.items);
    },

    /** The pods of a service, for their logs; undefined when there is no such service. */
    pods(serviceId: string): LoggedPod[] | undefined {
      const { namespace = "", name = "" } = places.get(serviceId) ?? {};
      const informers = held.get(namespace);
      const deployment = informers?.deployments.objects.get(name);
      if (!informers || !deployment || serviceIdOf(deployment) !== serviceId) return undefined;
      const own = [...informers.pods.objects.values()].filter((pod) => serviceIdOf(pod) === serviceId);
      return own.map((pod) => ({ namespace, ...podFacts(pod) }));
    },

    /** Every Deployment of an app that there is. */
    deployments: (): V1Deployment[] =>
      [...held.values()].flatMap(({ deployments }) => [...deployments.objects.values()]),

    async stop(): Promise<void> {
      for (const namespace of [...held.keys()]) onNamespaceRemoved(namespace);
    },
  };
}
