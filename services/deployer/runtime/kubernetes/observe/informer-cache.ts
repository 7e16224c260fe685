import type { V1Deployment, V1Pod } from "@kubernetes/client-node";
import { type Informer, startInformer } from "../../../kube/informer.ts";
import { Deployment, Pod } from "../../../kube/kinds.ts";
import { label, selector } from "../../../kube/names.ts";
import type { LoggedPod } from "../logs/log-read.ts";
import type { Environments } from "../namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import type { Location } from "../release/apply-release.ts";
import { selectorOf } from "../release/manifests.ts";
import { readState, serviceIdOf } from "../release/release-annotations.ts";
import { podFacts } from "./pod-facts.ts";
import type { Observation } from "./status.ts";

export type Cache = ReturnType<typeof createCache>;

const APPS = selector({ [label("kind")]: "app" });
/** A start that takes longer than the chart's startup probe allows would begin again, for ever. */
const START_MS = 90_000;

/** Knows what runs in all environments by watches, and reads it afresh on demand. */
export function createCache(
  { kube, log }: KubernetesRuntimeOptions,
  environments: Environments,
  changed: (serviceId: string) => void,
) {
  type Informers = { deployments: Informer<V1Deployment>; pods: Informer<V1Pod> };
  const informers = new Map<string, Informers>();
  /** Where each service is; it never moves. */
  const locations = new Map<string, Location>();

  function onNamespaceAdded(namespace: string): void {
    if (informers.has(namespace)) return;
    const common = { namespace, labels: APPS, log };
    const deployments = startInformer(kube, Deployment, {
      ...common,
      changed(object) {
        setLocation(object);
        changed(serviceIdOf(object));
      },
    });
    const pods = startInformer(kube, Pod, { ...common, changed: (pod) => changed(serviceIdOf(pod)) });
    informers.set(namespace, { deployments, pods });
    void Promise.all([deployments.synced, pods.synced]).then(() => {
      if (isRead(namespace)) for (const one of deployments.objects.values()) changed(serviceIdOf(one));
    });
  }

  function onNamespaceRemoved(namespace: string): void {
    const { deployments, pods } = informers.get(namespace) ?? {};
    informers.delete(namespace);
    for (const [serviceId, location] of locations)
      if (location.namespace === namespace) locations.delete(serviceId);
    void deployments?.stop();
    void pods?.stop();
  }

  function isRead(namespace: string): boolean {
    const { deployments, pods } = informers.get(namespace) ?? {};
    return (deployments?.isSynced() && pods?.isSynced()) ?? false;
  }

  const unread = () => environments.list().filter((id) => !isRead(environments.namespaceOf(id)));

  function setLocation({ metadata }: V1Deployment): void {
    const { name = "", namespace = "" } = metadata ?? {};
    locations.set(serviceIdOf({ metadata }), { namespace, name });
  }

  /** Returns the Deployment and the pods of a service as the watches show them. */
  function find(serviceId: string): { deployment: V1Deployment; pods: V1Pod[] } | undefined {
    const { namespace = "", name = "" } = locations.get(serviceId) ?? {};
    const { deployments, pods } = informers.get(namespace) ?? {};
    const deployment = deployments?.objects.get(name);
    if (!pods || !deployment || !isRead(namespace) || serviceIdOf(deployment) !== serviceId) return undefined;
    const own = [...pods.objects.values()].filter((pod) => serviceIdOf(pod) === serviceId);
    return { deployment, pods: own };
  }

  function observe(deployment: V1Deployment, pods: V1Pod[]): Observation | undefined {
    const recorded = readState(deployment);
    return recorded && { deployment, recorded, pods: pods.map(podFacts) };
  }

  return {
    /** Resolves once each namespace has been read, or cannot be: that one does not delay the others. */
    async start(): Promise<void> {
      await environments.synced;
      environments.watch({ onNamespaceAdded, onNamespaceRemoved });
      const all = [...informers.values()].flatMap(({ deployments, pods }) => [deployments.tried, pods.tried]);
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, START_MS);
      await Promise.race([Promise.all(all), late]);
      clearTimeout(timer);
      const { length } = unread();
      if (length > 0)
        log.warn({ unread: length }, "not all environments could be read yet; these stay undecided");
    },

    /** Returns the ids of the environments whose namespace has not been read yet. */
    unread,

    /** Records where the service of a Deployment is. */
    setLocation,

    locationOf: (serviceId: string) => locations.get(serviceId),

    /** Returns what the watches show of a service, perhaps a moment old. */
    cached(serviceId: string): Observation | undefined {
      const found = find(serviceId);
      return found && observe(found.deployment, found.pods);
    },

    /** Returns what the watches show of all services of a namespace. */
    listIn(namespace: string): Observation[] {
      if (!isRead(namespace)) return [];
      const { deployments, pods } = informers.get(namespace) ?? {};
      const byService = Map.groupBy(pods?.objects.values() ?? [], serviceIdOf);
      return [...(deployments?.objects.values() ?? [])]
        .map((one) => observe(one, byService.get(serviceIdOf(one)) ?? []))
        .filter((one) => one !== undefined);
    },

    /** Returns what the API says of a service now. Pods are read last: they are no older than the recorded state. */
    async read(serviceId: string): Promise<Observation | undefined> {
      const { namespace = "", name = "" } = locations.get(serviceId) ?? {};
      if (!name) return undefined;
      const deployment = await kube.get(Deployment, name, namespace);
      if (!deployment || serviceIdOf(deployment) !== serviceId) return undefined;
      const pods = await kube.list(Pod, { namespace, labels: selector(selectorOf(serviceId)) });
      return observe(deployment, pods.items);
    },

    /** Returns the pods of a service, for their logs; undefined when the service does not exist. */
    podsOf(serviceId: string): LoggedPod[] | undefined {
      const namespace = locations.get(serviceId)?.namespace ?? "";
      return find(serviceId)?.pods.map((pod) => ({ namespace, ...podFacts(pod) }));
    },

    /** Returns the Deployments of all services, where they have been read. */
    deployments: (): V1Deployment[] =>
      [...informers]
        .filter(([namespace]) => isRead(namespace))
        .flatMap(([, { deployments }]) => [...deployments.objects.values()]),

    async stop(): Promise<void> {
      for (const namespace of [...informers.keys()]) onNamespaceRemoved(namespace);
    },
  };
}
