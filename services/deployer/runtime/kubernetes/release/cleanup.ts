import { setTimeout as delay } from "node:timers/promises";
import type { V1Pod } from "@kubernetes/client-node";
import type { Kube } from "../../../kube/client.ts";
import { Deployment, HTTPRoute, Ingress, Pod, ReplicaSet, Secret, Service } from "../../../kube/kinds.ts";
import { label, selector } from "../../../kube/names.ts";
import { selectorOf } from "../app-pods.ts";
import { type AppRelease, objectName, secretName } from "./manifests.ts";

/** A Secret that nothing uses yet may belong to a release that is being applied. */
const FRESH_MS = 10 * 60_000;
const REMOVAL_GRACE_SECONDS = 10;
/** Pods that are left after this are on a node that does not answer, or something else holds them. */
const REMOVAL_MS = 60_000;

/** Removes Secrets of older releases that pods can no longer refer to. */
export async function pruneSecrets(kube: Kube, namespace: string, release: AppRelease): Promise<void> {
  const labels = selector(selectorOf(release.serviceId));
  const sets = await kube.list(ReplicaSet, { namespace, labels });
  const used = new Set([secretName(release)]);
  for (const { spec, status } of sets.items) {
    if ((spec?.replicas ?? 0) === 0 && (status?.replicas ?? 0) === 0) continue;
    const from = spec?.template?.spec?.containers[0]?.envFrom ?? [];
    for (const { secretRef } of from) used.add(secretRef?.name ?? "");
  }
  for (const metadata of await kube.listMetadata(Secret, { namespace, labels })) {
    const { name = "", labels: own = {}, creationTimestamp } = metadata;
    const [version, revision] = [Number(own[label("version")]), Number(own[label("revision")])];
    const older = version < release.version || (version === release.version && revision < release.revision);
    const fresh = Date.now() - new Date(creationTimestamp ?? 0).getTime() < FRESH_MS;
    if (!used.has(name) && (older || !fresh)) await kube.remove(Secret, name, namespace);
  }
}

/**
 * Removes Deployments of a renamed service under another name than that of its objects, with all that they own: a deployer
 * of the version before, which did not know such names, created them.
 */
export async function removeDuplicates(kube: Kube, namespace: string, release: AppRelease): Promise<void> {
  if (release.objectName === undefined) return;
  const query = { namespace, labels: selector(selectorOf(release.serviceId)) };
  for (const { name = "" } of await kube.listMetadata(Deployment, query))
    if (name !== objectName(release)) await kube.remove(Deployment, name, namespace);
}

/**
 * Removes all objects of a service, HTTPRoutes where the cluster may have some. Resolves when none of its pods is left;
 * rejects when some are after `forMs`.
 */
export async function removeObjects(
  kube: Kube,
  namespace: string,
  serviceId: string,
  { httpRoutes = false, forMs = REMOVAL_MS } = {},
): Promise<void> {
  const query = { namespace, labels: selector(selectorOf(serviceId)) };
  // First what routes requests to it, then what starts pods.
  const doors = httpRoutes ? [Ingress, HTTPRoute] : [Ingress];
  for (const kind of [...doors, Service, Deployment, ReplicaSet, Secret])
    for (const { name = "" } of await kube.listMetadata(kind, query))
      await kube.remove(kind, name, namespace);
  const asked = new Set<string>();
  for (const until = Date.now() + forMs; ; ) {
    const { items } = await kube.list(Pod, query);
    if (items.length === 0) return;
    if (Date.now() > until)
      throw new Error(`pods of ${serviceId} do not end: ${items.map(describe).join(", ")}`);
    for (const { metadata } of items) {
      const { name = "", uid = "" } = metadata ?? {};
      if (asked.has(uid)) continue;
      asked.add(uid);
      await kube.remove(Pod, name, namespace, { gracePeriodSeconds: REMOVAL_GRACE_SECONDS });
    }
    await delay(100);
  }
}

/** Describes why a pod is still there. */
function describe({ metadata, spec, status }: V1Pod): string {
  const ending = metadata?.deletionTimestamp
    ? `ending since ${JSON.stringify(metadata.deletionTimestamp)}`
    : "not ending";
  const containers = status?.containerStatuses?.map(({ state }) => Object.keys(state ?? {}).join()) ?? [];
  const held = metadata?.finalizers?.length ? `, held by ${metadata.finalizers.join()}` : "";
  return `${metadata?.name} on ${spec?.nodeName ?? "no node"} (${status?.phase}, ${containers.join() || "no container"}, ${ending}${held})`;
}
