import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { V1Deployment } from "@kubernetes/client-node";
import { hasOwnData, isStatus } from "../../../kube/client.ts";
import {
  Deployment,
  HorizontalPodAutoscaler,
  HTTPRoute,
  Ingress,
  PodDisruptionBudget,
  Secret,
  Service,
} from "../../../kube/kinds.ts";
import { RuntimeRefusal } from "../../../terms/runtime-refusal.ts";
import type { HostStatus, Release, Scale, ServedHost } from "../../port.ts";
import { refuseOlder } from "../../refusals.ts";
import { CONTAINER, selectorOf } from "../app-pods.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { withLiveReplicas } from "./autoscaler.ts";
import { createCertificateReader } from "./certificates.ts";
import { pruneSecrets, removeDuplicates, removeObjects } from "./cleanup.ts";
import { disruptionBudgetOf } from "./disruption-budget.ts";
import { type Door, hostOf } from "./doors.ts";
import type { createHostClaims } from "./host-claims.ts";
import {
  type AppRelease,
  hasAddress,
  imageOf,
  type Manifests,
  manifestsOf,
  objectName,
  ownerOf,
  ownLabels,
  secretOf,
} from "./manifests.ts";
import { isApplied, nextState } from "./next-state.ts";
import { type ReleaseState, readState, serviceIdOf, withAnnotations } from "./release-annotations.ts";
import { createHostServer } from "./serve-hosts.ts";

/** During a roll-over the cluster itself writes to the Deployment; each write may cost an attempt. */
const MAX_ATTEMPTS = 40;

/** Where the objects of a service are. */
export type Location = { namespace: string; name: string };

/** Applies releases to an environment's namespace, changes them and removes them. */
export function createReleaseApplier(
  options: KubernetesRuntimeOptions,
  claims: ReturnType<typeof createHostClaims>,
) {
  const { kube, log } = options;
  const hostServer = createHostServer(options);
  const readCertificates = createCertificateReader(options);

  /** Creates a Deployment without replicas, which owns all other objects; undefined when another process has. */
  async function createEmptyDeployment(
    { namespace, name }: Location,
    release: AppRelease,
  ): Promise<V1Deployment | undefined> {
    const labels = selectorOf(release.serviceId);
    const containers = [{ name: CONTAINER, image: imageOf(release.artifact) }];
    const template = { metadata: { labels }, spec: { containers } };
    const spec = { replicas: 0, selector: { matchLabels: labels }, template };
    const object = { metadata: { name, namespace, labels: ownLabels(release) }, spec };
    return kube.create(Deployment, object).catch(undefinedOnConflict);
  }

  /** Applies a release unless a newer one is. Returns the Deployment once the cluster has all objects. */
  async function apply(namespace: string, release: Release): Promise<V1Deployment> {
    const location = { namespace, name: objectName(release) };
    const { env: _, ...wanted } = release;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const live =
        (await kube.get(Deployment, location.name, namespace)) ??
        (await createEmptyDeployment(location, wanted));
      if (!live || live.metadata?.deletionTimestamp) {
        await delay(100);
        continue;
      }
      const owner = serviceIdOf(live);
      if (owner !== release.serviceId) {
        // These names are unique among existing services: this one belongs to a service that was deleted.
        await remove(namespace, owner);
        continue;
      }
      const before = readState(live);
      if (before) refuseOlder(before.release, release);
      const own = withLiveReplicas(wanted, live);
      await applySecret(namespace, release, live);
      const host = hasAddress(own) ? await chooseHost(release, before) : undefined;
      const former = before && hostOf(before.manifests);
      const next = nextState(own, toManifests(own, host), before, Date.now());
      await removeAutoscaler(live, next, before);
      await applyDisruptionBudget(live, next);
      const applied = await replaceIfUnchanged(live, next, before);
      if (!applied) continue;
      await applyRoutes(applied, next);
      await hostServer.applyHosts(applied, next);
      await applyAutoscaler(applied, next);
      await removeDisruptionBudget(applied, next, before);
      await removeDuplicates(kube, namespace, own);
      // Another service may have the former one from now on.
      if (former && former !== host) await claims.release(release.serviceId, host);
      void pruneSecrets(kube, namespace, own).catch((err) =>
        log.warn({ err, serviceId: own.serviceId }, "could not remove old Secrets; retrying later"),
      );
      return applied;
    }
    throw new Error(`the Deployment of ${release.serviceId} changes too often to be written`);
  }

  function toManifests(release: AppRelease, host: string | undefined): Manifests {
    return manifestsOf(release, { ...options, host, pullSecret: options.registryAuth !== undefined });
  }

  /** Returns the host name of a service, which it keeps as long as its names stay. */
  async function chooseHost(release: Release, before: ReleaseState | undefined): Promise<string> {
    const host = before && hostOf(before.manifests);
    const kept =
      host && isDeepStrictEqual(before?.release.names, release.names) ? host.split(".")[0] : undefined;
    return `${kept ?? (await claims.choose(release))}.${options.apps.domain}`;
  }

  /** Writes the Deployment unless it changed since it was read; undefined when it did. */
  async function replaceIfUnchanged(
    live: V1Deployment,
    next: ReleaseState,
    before: ReleaseState | undefined,
  ): Promise<V1Deployment | undefined> {
    if (isApplied(live, before, next)) return live;
    return kube.apply(Deployment, withAnnotations(live, next)).catch(undefinedOnConflict);
  }

  /** Before the number is fixed: what is left of an autoscaler would change it again. */
  async function removeAutoscaler(
    { metadata }: V1Deployment,
    next: ReleaseState,
    before: ReleaseState | undefined,
  ): Promise<void> {
    if (before?.manifests.autoscaler && !next.manifests.autoscaler)
      await kube.remove(HorizontalPodAutoscaler, metadata?.name ?? "", metadata?.namespace);
  }

  /** After the Deployment has recorded it: one that is missing is found by comparing. */
  async function applyAutoscaler(
    deployment: V1Deployment,
    { release, manifests }: ReleaseState,
  ): Promise<void> {
    const { name = "", namespace } = deployment.metadata ?? {};
    const metadata = { name, namespace, labels: ownLabels(release), ownerReferences: [ownerOf(deployment)] };
    if (manifests.autoscaler)
      await kube.apply(HorizontalPodAutoscaler, { metadata, spec: manifests.autoscaler });
  }

  /** Before the Deployment records the replicas, so that a process which ends in between does it again. */
  async function applyDisruptionBudget(deployment: V1Deployment, { release }: ReleaseState): Promise<void> {
    const { name = "", namespace } = deployment.metadata ?? {};
    const metadata = { name, namespace, labels: ownLabels(release), ownerReferences: [ownerOf(deployment)] };
    const spec = disruptionBudgetOf(release);
    if (spec) await kube.apply(PodDisruptionBudget, { metadata, spec });
  }

  /** One that is left does no harm: it lets a drain end the only replica. */
  async function removeDisruptionBudget(
    { metadata }: V1Deployment,
    { release }: ReleaseState,
    before: ReleaseState | undefined,
  ): Promise<void> {
    if (disruptionBudgetOf(before?.release) && !disruptionBudgetOf(release))
      await kube.remove(PodDisruptionBudget, metadata?.name ?? "", metadata?.namespace);
  }

  /** Applies the Secret with the release's variables, before anything refers to it. */
  async function applySecret(namespace: string, release: Release, deployment: V1Deployment): Promise<void> {
    const secret = secretOf(release, namespace, deployment);
    const applied = await kube.apply(Secret, secret).catch((error) => {
      // It is immutable: one with other values belongs to a deleted service of the same name.
      if (!isStatus(error, 422)) throw error;
    });
    if (applied && hasOwnData(applied.metadata)) return;
    await kube.remove(Secret, secret.metadata.name, namespace);
    await kube.apply(Secret, secret);
  }

  /** Applies what routes requests to a service, and then removes what does so no longer. */
  async function applyRoutes(deployment: V1Deployment, { release, manifests }: ReleaseState): Promise<void> {
    const { name = "", namespace } = deployment.metadata ?? {};
    const metadata = { name, namespace, labels: ownLabels(release), ownerReferences: [ownerOf(deployment)] };
    const { service, ingress, httpRoute } = manifests;
    const toObject = <Spec>({ annotations, spec }: Door<Spec>) => ({
      metadata: { ...metadata, annotations },
      spec,
    });
    await Promise.all([
      service && kube.apply(Service, { metadata, spec: service }),
      ingress && kube.apply(Ingress, toObject(ingress)),
      httpRoute && kube.apply(HTTPRoute, toObject(httpRoute)),
    ]);
    if (!service) return;
    await Promise.all([
      !ingress && kube.remove(Ingress, name, namespace),
      !httpRoute && options.httpRoute && kube.remove(HTTPRoute, name, namespace),
    ]);
  }

  /** Changes the applied release if it has this version. Returns the new Deployment, undefined without a change. */
  async function change(
    { namespace, name }: Location,
    version: number,
    changes: (release: AppRelease) => Partial<AppRelease>,
  ): Promise<V1Deployment | undefined> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const live = await kube.get(Deployment, name, namespace);
      const before = live && readState(live);
      if (!live || before?.release.version !== version) return undefined;
      const release = withLiveReplicas({ ...before.release, ...changes(before.release) }, live);
      if (isDeepStrictEqual(release, before.release)) return undefined;
      // What routes requests to it stays as it was applied.
      const { autoscaler: _, ...kept } = before.manifests;
      const { deployment, autoscaler } = toManifests(release, hostOf(before.manifests));
      const manifests = { ...kept, deployment, ...(autoscaler && { autoscaler }) };
      const next = nextState(release, manifests, before, Date.now());
      await removeAutoscaler(live, next, before);
      await applyDisruptionBudget(live, next);
      const written = await replaceIfUnchanged(live, next, before);
      if (!written) continue;
      await applyAutoscaler(written, next);
      await removeDisruptionBudget(written, next, before);
      return written;
    }
    throw new Error(`the Deployment ${name} changes too often to be written`);
  }

  /** Records which hosts a service has, and then applies and removes their objects. */
  async function setHosts({ namespace, name }: Location, hosts: ServedHost[]) {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const live = await kube.get(Deployment, name, namespace);
      const before = live && readState(live);
      if (!live || !before) return undefined;
      const next = { ...before, hosts };
      const written = await replaceIfUnchanged(live, next, before);
      if (!written) continue;
      await hostServer.applyHosts(written, next);
      await hostServer.removeOthers(namespace, before.release.serviceId, hosts);
      if (!hasAddress(before.release)) return { deployment: written, statuses: [] };
      return { deployment: written, statuses: await readCertificates(namespace, hosts) };
    }
    throw new Error(`the Deployment ${name} changes too often to be written`);
  }

  async function remove(namespace: string, serviceId: string): Promise<void> {
    await hostServer.removeOthers(namespace, serviceId);
    await removeObjects(kube, namespace, serviceId, { httpRoutes: options.httpRoute !== undefined });
    await claims.release(serviceId);
  }

  return {
    apply: (namespace: string, release: Release) => apply(namespace, release).catch(refuseInvalid),
    /** Sets replicas, size and autoscaling, if this version is the one applied. */
    scale: (location: Location, version: number, scale: Scale) =>
      change(location, version, () => ({ autoscaling: undefined, ...scale })),
    /** Replaces the pods, if this version is the one applied and was rolled fewer than `rolls` times. */
    roll: (location: Location, version: number, rolls: number) =>
      change(location, version, (release) => ({ rolls: Math.max(rolls, release.rolls ?? 0) })),
    /** Sets the hosts of a service, and returns what became of each; undefined without a release. */
    setHosts: (
      location: Location,
      hosts: ServedHost[],
    ): Promise<{ deployment: V1Deployment; statuses: HostStatus[] } | undefined> => setHosts(location, hosts),
    /** Removes all of a service; resolves when none of its pods is left. */
    remove,
  };
}

function undefinedOnConflict(error: unknown): undefined {
  if (!isStatus(error, 409)) throw error;
}

/** Turns what the API calls invalid into a refusal: no other attempt would succeed. */
function refuseInvalid(error: unknown): never {
  if (!isStatus(error, 422)) throw error;
  const quoted = /"message":"((?:[^"\\]|\\.)*)"/.exec(String((error as { body?: unknown }).body));
  const why = quoted?.[1] ? JSON.parse(`"${quoted[1]}"`) : "it gave no reason";
  throw new RuntimeRefusal("cluster_refused", `The cluster rejected this release: ${why}`);
}
