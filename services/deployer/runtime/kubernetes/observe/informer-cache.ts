import type { V1Deployment, V1Pod } from "@kubernetes/client-node";
import { Deployment, Pod } from "../../../kube/kinds.ts";
import { label, selector } from "../../../kube/names.ts";
import { startWatches, type Watches } from "../../../kube/watch/watches.ts";
import { selectorOf } from "../app-pods.ts";
import type { Environments } from "../namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import type { Location } from "../release/apply-release.ts";
import { readState, serviceIdOf } from "../release/release-annotations.ts";
import { contains } from "./drift/drift.ts";
import { podFacts, withoutUnread } from "./status/pod-facts.ts";
import type { Observation } from "./status/status.ts";

export type Cache = ReturnType<typeof createCache>;

const APPS = selector({ [label("kind")]: "app" });
/** A start that takes longer than the chart's startup probe allows would begin again, for ever. */
const START_MS = 90_000;

/** Knows what runs in all environments by watches, once `start` was called, and reads it afresh on demand. */
export function createCache(
  { kube, log, watch: scope }: KubernetesRuntimeOptions,
  environments: Environments,
  changed: (serviceId: string) => void,
) {
  let watched: { deployments: Watches<V1Deployment>; pods: Watches<V1Pod> } | undefined;
  let stopped = false;
  /** Where each service is; it never moves. */
  const locations = new Map<string, Location>();

  function onNamespaceAdded(namespace: string): void {
    if (!watched) return;
    const { deployments, pods } = watched;
    deployments.add(namespace);
    pods.add(namespace);
    void Promise.all([deployments.synced(namespace), pods.synced(namespace)]).then(() => {
      for (const one of deploymentsIn(namespace)) changed(serviceIdOf(one));
    });
  }

  function onNamespaceRemoved(namespace: string): void {
    for (const [serviceId, location] of locations)
      if (location.namespace === namespace) locations.delete(serviceId);
    watched?.deployments.remove(namespace);
    watched?.pods.remove(namespace);
  }

  function isRead(namespace: string): boolean {
    return (watched?.deployments.isRead(namespace) && watched.pods.isRead(namespace)) ?? false;
  }

  /** Returns the Deployments of a namespace, if it has been read. */
  const deploymentsIn = (namespace: string): V1Deployment[] =>
    isRead(namespace) ? [...(watched?.deployments.in(namespace).values() ?? [])] : [];

  const unread = () => environments.list().filter((id) => !isRead(environments.namespaceOf(id)));

  function setLocation({ metadata }: V1Deployment): void {
    const { name = "", namespace = "" } = metadata ?? {};
    locations.set(serviceIdOf({ metadata }), { namespace, name });
  }

  /** Returns the Deployment and the pods of a service as the watches show them. */
  function find(serviceId: string): { deployment: V1Deployment; pods: V1Pod[] } | undefined {
    const { namespace = "", name = "" } = locations.get(serviceId) ?? {};
    const deployment = watched?.deployments.in(namespace).get(name);
    if (!watched || !deployment || !isRead(namespace) || serviceIdOf(deployment) !== serviceId)
      return undefined;
    const own = [...watched.pods.in(namespace).values()].filter((pod) => serviceIdOf(pod) === serviceId);
    return { deployment, pods: own };
  }

  function observe(deployment: V1Deployment, pods: V1Pod[]): Observation | undefined {
    const recorded = readState(deployment);
    if (!recorded) return undefined;
    const { spec = recorded.manifests.deployment } = deployment;
    return { deployment: { ...deployment, spec }, recorded, pods: pods.map(podFacts) };
  }

  return {
    /** Resolves once each namespace has been read, or cannot be: that one does not delay the others. */
    async start(): Promise<void> {
      const common = { scope, labels: APPS, log };
      const deployments = startWatches(kube, Deployment, {
        ...common,
        keep: withoutApplied,
        changed(object) {
          setLocation(object);
          changed(serviceIdOf(object));
        },
      });
      const pods = startWatches(kube, Pod, {
        ...common,
        keep: withoutUnread,
        changed: (pod) => changed(serviceIdOf(pod)),
      });
      watched = { deployments, pods };
      await environments.start();
      if (stopped) return;
      environments.watch({ onNamespaceAdded, onNamespaceRemoved });
      const all = environments
        .namespaces()
        .flatMap((namespace) => [deployments.tried(namespace), pods.tried(namespace)]);
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
      const byService = Map.groupBy(watched?.pods.in(namespace).values() ?? [], serviceIdOf);
      return deploymentsIn(namespace)
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

    /** Returns the Deployments of all services, where they have been read. */
    deployments: (): V1Deployment[] => environments.namespaces().flatMap(deploymentsIn),

    async stop(): Promise<void> {
      stopped = true;
      await Promise.all([watched?.deployments.stop(), watched?.pods.stop(), environments.stop()]);
    },
  };
}

/** Returns a Deployment without the specification where that is as it was applied, according to its annotations. */
function withoutApplied(deployment: V1Deployment): V1Deployment {
  const { spec, ...rest } = deployment;
  try {
    const { release, manifests } = readState(deployment) ?? {};
    // How many replicas there are is decided elsewhere where it is not recorded.
    return contains(spec, manifests?.deployment) && !release?.autoscaling ? rest : deployment;
  } catch {
    // Somebody wrote annotations that cannot be read: the comparison reports them, and the watch goes on.
    return deployment;
  }
}
