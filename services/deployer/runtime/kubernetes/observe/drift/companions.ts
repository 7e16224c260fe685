import type { KubernetesObject, V1Ingress, V1Service } from "@kubernetes/client-node";
import { hasOwnData } from "../../../../kube/client.ts";
import {
  HorizontalPodAutoscaler,
  HTTPRoute,
  type HTTPRouteObject,
  Ingress,
  Secret,
  Service,
} from "../../../../kube/kinds.ts";
import { label, selector } from "../../../../kube/names.ts";
import { startWatches, type Watches } from "../../../../kube/watch/watches.ts";
import type { KubernetesRuntimeOptions } from "../../options.ts";
import type { Companions } from "./drift.ts";

/** What is read besides what always is. */
type Wanted = { secrets: boolean; autoscalers: boolean };

const APPS = selector({ [label("kind")]: "app" });

/**
 * Reads what belongs to services besides Deployments: from watches of the whole cluster, or by lists of each namespace.
 * Secrets are listed always, and only their metadata: a right to watch them in the cluster would be one to read them all.
 */
export function createCompanionReader({ kube, log, watch: scope, httpRoute }: KubernetesRuntimeOptions) {
  type Watched = {
    services: Watches<V1Service>;
    ingresses: Watches<V1Ingress>;
    httpRoutes?: Watches<HTTPRouteObject>;
  };
  let watched: Watched | undefined;
  const all = () => Object.values(watched ?? {}).filter((one) => one !== undefined);

  async function listSecrets(namespace: string): Promise<Set<string>> {
    const secrets = await kube.listMetadata(Secret, { namespace, labels: APPS });
    return new Set(secrets.filter(hasOwnData).map(({ name = "" }) => name));
  }

  /** By a list: few services have one. */
  async function listAutoscalers(namespace: string): Promise<Companions["autoscaler"]> {
    return byName((await kube.list(HorizontalPodAutoscaler, { namespace, labels: APPS })).items);
  }

  async function listOthers(namespace: string): Promise<Companions> {
    const query = { namespace, labels: APPS };
    const [services, ingresses, httpRoutes] = await Promise.all([
      kube.list(Service, query),
      kube.list(Ingress, query),
      httpRoute ? kube.list(HTTPRoute, query) : { items: [] },
    ]);
    return {
      service: byName(services.items),
      ingress: byName(ingresses.items),
      httpRoute: byName(httpRoutes.items),
    };
  }

  function watchedIn(
    { services, ingresses, httpRoutes }: Watched,
    namespace: string,
  ): Companions | undefined {
    for (const one of all()) one.add(namespace);
    if (!all().every((one) => one.isRead(namespace))) return undefined;
    return {
      service: services.in(namespace),
      ingress: ingresses.in(namespace),
      httpRoute: httpRoutes?.in(namespace) ?? new Map(),
    };
  }

  return {
    /** Whether all is listed with each read, and not only Secrets. */
    lists: scope === "namespaces",

    start(): void {
      if (scope === "namespaces") return;
      const options = { scope, labels: APPS, log, changed: () => {} };
      watched = {
        services: startWatches(kube, Service, options),
        ingresses: startWatches(kube, Ingress, options),
        ...(httpRoute && { httpRoutes: startWatches(kube, HTTPRoute, options) }),
      };
    },

    /**
     * Returns what a namespace has, without its Secrets and autoscalers unless asked for; undefined while it has not been
     * read.
     */
    async read(namespace: string, { secrets, autoscalers }: Wanted): Promise<Companions | undefined> {
      const ownSecrets = secrets ? await listSecrets(namespace) : undefined;
      const autoscaler = autoscalers ? await listAutoscalers(namespace) : undefined;
      const others = watched ? watchedIn(watched, namespace) : await listOthers(namespace);
      return others && { ...others, ownSecrets, autoscaler };
    },

    stop: async () => void (await Promise.all(all().map((one) => one.stop()))),
  };
}

function byName<T extends KubernetesObject>(objects: T[]): Map<string, T> {
  return new Map(objects.map((one) => [one.metadata?.name ?? "", one]));
}
