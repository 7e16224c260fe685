import type {
  KubernetesObject,
  V1Ingress,
  V1Service,
  V2HorizontalPodAutoscaler,
} from "@kubernetes/client-node";
import type { HTTPRouteObject } from "../../../../kube/kinds.ts";
import type { Doors } from "../../release/doors.ts";
import { type HostDoorOptions, hostDoorsOf } from "../../release/hosts.ts";
import { hasAddress, objectName, secretName, targetOf } from "../../release/manifests.ts";
import type { ReleaseState } from "../../release/release-annotations.ts";
import type { Observation } from "../status/status.ts";

/** What a namespace has of its services besides Deployments, by name. */
export type Companions = {
  service: ReadonlyMap<string, V1Service>;
  ingress: ReadonlyMap<string, V1Ingress>;
  httpRoute: ReadonlyMap<string, HTTPRouteObject>;
  /** Absent when they were not looked at. */
  autoscaler?: ReadonlyMap<string, V2HorizontalPodAutoscaler>;
  /** The names of Secrets that nobody else has written; absent when they were not looked at. */
  ownSecrets?: ReadonlySet<string>;
};

/**
 * Returns the ids of the services of a namespace of which something was removed or changed since it was applied, or
 * is left of another way to reach it; pure. Members that the cluster adds are no drift; lists are compared as they are.
 */
export function findDrift(
  { service, ingress, httpRoute, autoscaler, ownSecrets }: Companions,
  services: Observation[],
  options: HostDoorOptions,
): Set<string> {
  const drifted = new Set<string>();
  for (const { deployment, recorded } of services) {
    const { release, manifests } = recorded;
    const name = objectName(release);
    const whole =
      contains(deployment.spec, manifests.deployment) &&
      (ownSecrets?.has(secretName(release)) ?? true) &&
      contains(service.get(name)?.spec, manifests.service) &&
      (!autoscaler || contains(autoscaler.get(name)?.spec, manifests.autoscaler)) &&
      isDoor(ingress.get(name), manifests.ingress) &&
      isDoor(httpRoute.get(name), manifests.httpRoute) &&
      hasHosts(recorded);
    if (!whole) drifted.add(release.serviceId);
  }
  return drifted;

  function hasHosts({ release, hosts = [] }: ReleaseState): boolean {
    if (hosts.length === 0 || !hasAddress(release)) return true;
    return [...hostDoorsOf(targetOf(release), hosts, options)].every(
      ([name, doors]) =>
        isDoor(ingress.get(name), doors.ingress) && isDoor(httpRoute.get(name), doors.httpRoute),
    );
  }
}

/** Returns whether an object is as it was applied, or is not there where none was. */
function isDoor(
  live: (KubernetesObject & { spec?: unknown }) | undefined,
  wanted: Doors[keyof Doors],
): boolean {
  if (!wanted) return live === undefined;
  return contains(live?.spec, wanted.spec) && contains(live?.metadata?.annotations ?? {}, wanted.annotations);
}

/** Returns whether an object has all wanted members; it may have more. Lists must have equal length and order. */
export function contains(live: unknown, wanted: unknown): boolean {
  if (wanted === undefined || wanted === null || live === wanted) return true;
  if (Array.isArray(wanted))
    return (
      Array.isArray(live) &&
      live.length === wanted.length &&
      wanted.every((one, index) => contains(live[index], one))
    );
  if (typeof wanted !== "object" || typeof live !== "object" || live === null) return false;
  const own = live as Record<string, unknown>;
  return Object.entries(wanted).every(([key, value]) => contains(own[key], value));
}
