import type { KubernetesObject } from "@kubernetes/client-node";
import { hasOwnData, type Kube } from "../../../kube/client.ts";
import { Ingress, Secret, Service } from "../../../kube/kinds.ts";
import { label, selector } from "../../../kube/names.ts";
import { objectName, secretName } from "../release/manifests.ts";
import type { Observation } from "./status.ts";

/**
 * Returns the ids of the services of a namespace of which something was removed or changed since it was applied. Members
 * that the cluster adds are no drift; lists are compared as they are. Of a Secret the metadata tells who wrote it.
 */
export async function findDrift(
  kube: Kube,
  namespace: string,
  services: Observation[],
): Promise<Set<string>> {
  const drifted = new Set<string>();
  if (services.length === 0) return drifted;
  const query = { namespace, labels: selector({ [label("kind")]: "app" }) };
  const [routes, ingresses, secrets] = await Promise.all([
    kube.list(Service, query),
    kube.list(Ingress, query),
    kube.listMetadata(Secret, query),
  ]);
  const service = byName(routes.items);
  const ingress = byName(ingresses.items);
  const own = new Set(secrets.filter(hasOwnData).map((metadata) => metadata.name));
  for (const { deployment, recorded } of services) {
    const { release, manifests } = recorded;
    const name = objectName(release);
    const whole =
      contains(deployment.spec, manifests.deployment) &&
      own.has(secretName(release)) &&
      contains(service.get(name)?.spec, manifests.service) &&
      contains(ingress.get(name)?.spec, manifests.ingress?.spec) &&
      contains(ingress.get(name)?.metadata?.annotations ?? {}, manifests.ingress?.annotations);
    if (!whole) drifted.add(release.serviceId);
  }
  return drifted;
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
