import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { V1Deployment } from "@kubernetes/client-node";
import { isStatus } from "../../../kube/client.ts";
import { Deployment, Ingress, Pod, ReplicaSet, Secret, Service } from "../../../kube/kinds.ts";
import { label, selector } from "../../../kube/names.ts";
import { type Release, RuntimeRefusal, type Scale } from "../../port.ts";
import { contains } from "../observe/drift.ts";
import { usageWanted } from "../observe/usage.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import type { createHostClaims } from "./host-claims.ts";
import {
  type AppRelease,
  CONTAINER,
  imageOf,
  manifestsOf,
  objectName,
  ownerOf,
  ownLabels,
  secretName,
  secretOf,
  selectorOf,
} from "./manifests.ts";
import { type ReleaseState, readState, serviceIdOf, withAnnotations } from "./release-annotations.ts";

/** The cluster itself writes into a Deployment that rolls over: as often as this it may come in between. */
const TRIES = 40;
/** A Secret that nobody uses yet may be that of a release which is just being applied. */
const FRESH_MS = 10 * 60_000;
const REMOVAL_GRACE_SECONDS = 10;

type Place = { namespace: string; name: string };

/** Brings releases into an environment's namespace, and out of it. */
export function createReleaseApplier(
  options: KubernetesRuntimeOptions,
  claims: ReturnType<typeof createHostClaims>,
) {
  const { kube, log } = options;

  /** A Deployment that runs nothing: what only one can make, and what everything else belongs to. */
  async function seed({ namespace, name }: Place, release: AppRelease): Promise<V1Deployment | undefined> {
    const labels = selectorOf(release.serviceId);
    const containers = [{ name: CONTAINER, image: imageOf(release.artifact) }];
    const template = { metadata: { labels }, spec: { containers } };
    const spec = { replicas: 0, selector: { matchLabels: labels }, template };
    const object = { metadata: { name, namespace, labels: ownLabels(release) }, spec };
    return kube.create(Deployment, object).catch((error) => {
      if (isStatus(error, 409)) return undefined;
      throw error;
    });
  }

  /** Makes the release what runs, unless a newer one does. Returns once the cluster has it all. */
  async function apply(namespace: string, release: Release): Promise<V1Deployment> {
    const place = { namespace, name: objectName(release) };
    const { env: _, ...own } = release;
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const live = (await kube.get(Deployment, place.name, namespace)) ?? (await seed(place, own));
      if (!live || live.metadata?.deletionTimestamp) {
        await delay(100);
        continue;
      }
      const owner = serviceIdOf(live);
      if (owner !== release.serviceId) {
        // Names are unique among the services that are: it is of one that is no more.
        await remove(namespace, owner);
        continue;
      }
      const before = readState(live);
      refuseOlder(before?.release, release);
      await keepSecret(namespace, release, live);
      const recorded = await notesFor(release, own, before);
      const applied = await swap(live, recorded, before);
      if (!applied) continue;
      await applyServiceAndIngress(applied, recorded);
      void tidy(namespace, own).catch((err) =>
        log.warn({ err, serviceId: own.serviceId }, "old Secrets could not be removed; it is tried again"),
      );
      return applied;
    }
    throw new Error(`the Deployment of ${release.serviceId} changes too often to be written`);
  }

  async function notesFor(
    release: Release,
    own: AppRelease,
    before: ReleaseState | undefined,
  ): Promise<ReleaseState> {
    const now = Date.now();
    const same = before && isSame(before.release, own) ? before : undefined;
    const manifests = manifestsOf(own, {
      ...options,
      host: own.type === "web" ? await hostOf(release, before) : undefined,
      pullSecret: options.registryAuth !== undefined,
    });
    const { appliedAt = now, healthyAt } = same ?? {};
    return {
      release: own,
      manifests,
      appliedAt,
      ...(healthyAt !== undefined && { healthyAt }),
      usage: usageWanted(before?.usage ?? [], own.replicas, now),
    };
  }

  /** A service keeps its host as long as its names stay. */
  async function hostOf(release: Release, before: ReleaseState | undefined): Promise<string> {
    const host = before?.manifests.ingress?.spec.rules?.[0]?.host;
    const kept =
      host && isDeepStrictEqual(before?.release.names, release.names) ? host.split(".")[0] : undefined;
    return `${kept ?? (await claims.choose(release))}.${options.apps.domain}`;
  }

  /** Writes the Deployment if it still is what was read; undefined when it is not. */
  async function swap(
    live: V1Deployment,
    recorded: ReleaseState,
    before?: ReleaseState,
  ): Promise<V1Deployment | undefined> {
    if (
      before &&
      isDeepStrictEqual(stored(recorded), stored(before)) &&
      contains(live.spec, recorded.manifests.deployment)
    )
      return live;
    return kube.apply(Deployment, withAnnotations(live, recorded)).catch((error) => {
      if (isStatus(error, 409)) return undefined;
      throw error;
    });
  }

  /** The release's variables, before anything needs them. */
  async function keepSecret(namespace: string, release: Release, deployment: V1Deployment): Promise<void> {
    const wanted = secretOf(release, namespace, deployment);
    await kube.apply(Secret, wanted).catch(async (error) => {
      // It may not be changed: one with other values is of a service that had this name before.
      if (!isStatus(error, 422)) throw error;
      await kube.remove(Secret, wanted.metadata.name, namespace);
      await kube.apply(Secret, wanted);
    });
  }

  /** Service and Ingress, as the Deployment's notes have them. */
  async function applyServiceAndIngress(
    deployment: V1Deployment,
    { release, manifests }: ReleaseState,
  ): Promise<void> {
    const { name = "", namespace } = deployment.metadata ?? {};
    const metadata = { name, namespace, labels: ownLabels(release), ownerReferences: [ownerOf(deployment)] };
    const { service, ingress } = manifests;
    await Promise.all([
      service && kube.apply(Service, { metadata, spec: service }),
      ingress &&
        kube.apply(Ingress, {
          metadata: { ...metadata, annotations: ingress.annotations },
          spec: ingress.spec,
        }),
    ]);
  }

  /** Removes Secrets of older releases that no pod can ask for any more. */
  async function tidy(namespace: string, release: AppRelease): Promise<void> {
    const labels = selector(selectorOf(release.serviceId));
    const sets = await kube.list(ReplicaSet, { namespace, labels });
    const used = new Set([secretName(release)]);
    for (const { spec, status } of sets.items) {
      if ((spec?.replicas ?? 0) === 0 && (status?.replicas ?? 0) === 0) continue;
      const from = spec?.template?.spec?.containers[0]?.envFrom ?? [];
      for (const { secretRef } of from) used.add(secretRef?.name ?? "");
    }
    for (const { metadata } of (await kube.list(Secret, { namespace, labels })).items) {
      const { name = "", labels: own = {}, creationTimestamp } = metadata ?? {};
      const [version, revision] = [Number(own[label("version")]), Number(own[label("revision")])];
      const older = version < release.version || (version === release.version && revision < release.revision);
      const fresh = Date.now() - new Date(creationTimestamp ?? 0).getTime() < FRESH_MS;
      if (!used.has(name) && (older || !fresh)) await kube.remove(Secret, name, namespace);
    }
  }

  /** Other replicas or another size, if this version is the one applied. */
  function scale(place: Place, version: number, scale: Scale): Promise<V1Deployment | undefined> {
    return change(place, version, () => scale);
  }

  /** New pods of the same release, if this version is the one applied and was not rolled as often yet. */
  function roll(place: Place, version: number, rolls: number): Promise<V1Deployment | undefined> {
    return change(place, version, (release) => ({ rolls: Math.max(rolls, release.rolls ?? 0) }));
  }

  /** Gives the Deployment as it was written; undefined when there was nothing to change. */
  async function change(
    { namespace, name }: Place,
    version: number,
    how: (release: AppRelease) => Partial<AppRelease>,
  ): Promise<V1Deployment | undefined> {
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const live = await kube.get(Deployment, name, namespace);
      const before = live && readState(live);
      if (!live || before?.release.version !== version) return undefined;
      const release = { ...before.release, ...how(before.release) };
      if (isDeepStrictEqual(release, before.release)) return undefined;
      const host = before.manifests.ingress?.spec.rules?.[0]?.host;
      const manifests = manifestsOf(release, {
        ...options,
        host,
        pullSecret: options.registryAuth !== undefined,
      });
      const now = Date.now();
      const usage = usageWanted(before.usage, release.replicas, now);
      const since = isSame(before.release, release) ? before : { appliedAt: now };
      const written = await swap(live, { ...since, release, manifests, usage }, before);
      if (written) return written;
    }
    throw new Error(`the Deployment ${name} changes too often to be written`);
  }

  /** Removes everything of a service; resolves when none of its pods is left. */
  async function remove(namespace: string, serviceId: string): Promise<void> {
    const labels = selector(selectorOf(serviceId));
    const which = { namespace, labels };
    // Nothing may reach it, nothing may start it again, then it ends.
    for (const kind of [Ingress, Service, Deployment, ReplicaSet, Secret] as const)
      for (const { metadata } of (await kube.list(kind as typeof Deployment, which)).items)
        await kube.remove(kind as typeof Deployment, metadata?.name ?? "", namespace);
    const asked = new Set<string>();
    for (;;) {
      const { items } = await kube.list(Pod, which);
      if (items.length === 0) break;
      for (const { metadata } of items) {
        const { name = "", uid = "" } = metadata ?? {};
        if (asked.has(uid)) continue;
        asked.add(uid);
        await kube.remove(Pod, name, namespace, { gracePeriodSeconds: REMOVAL_GRACE_SECONDS });
      }
      await delay(100);
    }
    await claims.release(serviceId);
  }

  return {
    apply: (namespace: string, release: Release) => apply(namespace, release).catch(refuseInvalid),
    scale,
    roll,
    remove,
  };
}

/** What the API calls invalid stays so however often it is tried. */
function refuseInvalid(error: unknown): never {
  if (!isStatus(error, 422)) throw error;
  const said = /"message":"((?:[^"\\]|\\.)*)"/.exec(String((error as { body?: unknown }).body));
  const why = said?.[1] ? JSON.parse(`"${said[1]}"`) : "it gave no reason";
  throw new RuntimeRefusal("cluster_refused", `The cluster does not take this release: ${why}`);
}

/** What of the notes an apply changes. */
function stored({ release, manifests, usage }: ReleaseState) {
  return { release, manifests, usage };
}

/** The same processes: a release that was scaled is the same. */
function isSame(one: AppRelease, other: AppRelease): boolean {
  const { version, revision, rolls = 0 } = one;
  return version === other.version && revision === other.revision && rolls === (other.rolls ?? 0);
}

function refuseOlder(current: AppRelease | undefined, release: Release): void {
  if (!current) return;
  const older = release.version - current.version || release.revision - current.revision;
  if (older < 0)
    throw new RuntimeRefusal("release_superseded", `Version ${current.version} has been applied already.`);
}
