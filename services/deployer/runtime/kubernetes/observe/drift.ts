import type { KubernetesObject } from "@kubernetes/client-node";
import { hasOwnData, type Kube } from "../../../kube/client.ts";
import { HTTPRoute, Ingress, Secret, Service } from "../../../kube/kinds.ts";
import { label, selector } from "../../../kube/names.ts";
import type { Doors } from "../release/doors.ts";
import { objectName, secretName } from "../release/manifests.ts";
import type { Observation } from "./status.ts";

/**
 * Returns the ids of the services of a namespace of which something was removed or changed since it was applied, or is
 * left of another way to reach it. Members that the cluster adds are no drift; lists are compared as they are. Of a
 * Secret the metadata tells who wrote it.
 */
export async function findDrift(
  kube: Kube,
  namespace: string,
  services: Observation[],
  httpRoutes: boolean,
): Promise<Set<string>> {
  const drifted = new Set<string>();
  if (services.length === 0) return drifted;
  const query = { namespace, labels: selector({ [label("kind")]: "app" }) };
  const [targets, ingresses, routes, secrets] = await Promise.all([
    kube.list(Service, query),
    kube.list(Ingress, query),
    httpRoutes ? kube.list(HTTPRoute, query) : { items: [] },
    kube.listMetadata(Secret, query),
  ]);
  const service = byName(targets.items);
  const ingress = byName(ingresses.items);
  const httpRoute = byName(routes.items);
  const own = new Set(secrets.filter(hasOwnData).map((metadata) => metadata.name));
  for (const { deployment, recorded } of services) {
    const { release, manifests } = recorded;
    const name = objectName(release);
    const whole =
      contains(deployment.spec, manifests.deployment) &&
      own.has(secretName(release)) &&
      contains(service.get(name)?.spec, manifests.service) &&
      isDoor(ingress.get(name), manifests.ingress) &&
      isDoor(httpRoute.get(name), manifests.httpRoute);
    if (!whole) drifted.add(release.serviceId);
  }
  return drifted;
}

/** Returns whether an object is as it was applied, or is not there where none was. */
function isDoor(
  live: (KubernetesObject & { spec?: unknown }) | undefined,
  wanted: Doors[keyof Doors],
): boolean {
  if (!wanted) return live === undefined;
  return contains(live?.spec, wanted.spec) && contains(live?.metadata?.annotations ?? {}, wanted.annotations);
}

function byName<T extends KubernetesObject>(objects: T[]): Map<string | undefined, T> {
  return new Map(objects.map((one) => [one.metadata?.name, one]));
}

/** Returns whether an object has all wanted members; it may have more. Lists must have equal length and order. */
export function contains(live: unknown, wanted: unknown): boolean {
  if (wanted === undefined || wanted === null) return true;
  if (Array.isArray(wanted))
    return (
      Array.isArray(live) &&
      live.length === wanted.length &&
      wanted.every((one, index) => contains(live[index], one))
    );
  if (typeof wanted !== "object") return live === wanted;
  if (typeof live !== "object" || live === null) return false;
  const own = live as Record<string, unknown>;
  return Object.entries(wanted).every(([key, value]) => contains(own[key], value));
}
