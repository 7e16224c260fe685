import type { Kube } from "../../../kube/client.ts";
import { Ingress, Secret, Service } from "../../../kube/kinds.ts";
import { label, selector } from "../../../kube/names.ts";
import { objectName, secretName } from "../release/manifests.ts";
import type { Observation } from "./status.ts";

/**
 * Ids of the services of a namespace of which something was removed or changed since it was applied. What the
 * cluster itself makes of an apply is no drift only where it adds: lists are compared as they are.
 */
export async function findDrift(
  kube: Kube,
  namespace: string,
  services: Observation[],
): Promise<Set<string>> {
  const drifted = new Set<string>();
  if (services.length === 0) return drifted;
  const which = { namespace, labels: selector({ [label("kind")]: "app" }) };
  const [doors, ingresses, secrets] = await Promise.all([
    kube.list(Service, which),
    kube.list(Ingress, which),
    kube.list(Secret, which),
  ]);
  const byName = <T extends { metadata?: { name?: string } }>(page: { items: T[] }) =>
    new Map(page.items.map((one) => [one.metadata?.name, one]));
  const found = { service: byName(doors), ingress: byName(ingresses), secret: byName(secrets) };
  for (const { deployment, recorded } of services) {
    const { release, manifests } = recorded;
    const name = objectName(release);
    const ingress = found.ingress.get(name);
    const whole =
      contains(deployment.spec, manifests.deployment) &&
      found.secret.has(secretName(release)) &&
      contains(found.service.get(name)?.spec, manifests.service) &&
      contains(ingress?.spec, manifests.ingress?.spec) &&
      contains(ingress?.metadata?.annotations ?? {}, manifests.ingress?.annotations);
    if (!whole) drifted.add(release.serviceId);
  }
  return drifted;
}

/** Whether an object has all that was asked of it; the cluster fills in more. Lists must match in order. */
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
