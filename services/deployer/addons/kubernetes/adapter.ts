import { setTimeout as delay } from "node:timers/promises";
import type { V1StatefulSet } from "@kubernetes/client-node";
import { isStatus, type Kube } from "../../kube/client.ts";
import * as kinds from "../../kube/kinds.ts";
import { label, nameOf, namespaceOf, selector } from "../../kube/names.ts";
import { startWatches, type WatchScope } from "../../kube/watch/watches.ts";
import type { Logger } from "../../shared/logger.ts";
import type { AddonType } from "../../terms/services.ts";
import type { Addon, AddonReaders, AddonServers, PlacedAddon } from "../port.ts";
import { createKubernetesBackups, type KubernetesBackupsOptions } from "./backups/adapter.ts";
import { createNamespaceWatches } from "./namespace-watch.ts";
import { createPatches, imageOf, newerPatches, patchables } from "./patches.ts";
import { GENERATION, MOVED, PASSWORD, RESTORED, SIZE, STORAGE } from "./server/annotations.ts";
import { addonObjects, type FixedSettings, type ManifestOptions, secretName } from "./server/manifests.ts";
import { addonOutcome, addonStatus } from "./server/pod-status.ts";
import { passwordMark, programs } from "./server/server-scripts.ts";
import { growVolumes, largerOf, quantityOf, refusesGrowth, smallestVolume } from "./server/volumes.ts";
import { choiceOfVersions, imageFor, versionOf } from "./versions.ts";

export type KubernetesAddonsOptions = ManifestOptions &
  Omit<KubernetesBackupsOptions, "restart" | "serverOf" | "noArchive" | "atMoment"> & {
    kube: Kube;
    log: Logger;
    watch: WatchScope;
    /** Creates an environment's namespace with all that its services need. */
    ensureNamespace: (environment: Environment) => Promise<unknown>;
    /** Whether an environment's namespace exists. */
    hasNamespace: (namespace: string) => boolean;
    /** Of new addons, and those of earlier versions that users may choose. */
    images: Record<AddonType, string>;
    earlierImages?: Partial<Record<AddonType, string[]>>;
    storage: { size: string; className?: string };
    /** Those that running servers may move to. */
    patchImages: Record<AddonType, string[]>;
    /** For so long after it began a process may not know all servers yet, and moves none. */
    patchAfterMs?: number;
    /** To what size the volumes of running servers grow, looked at every `checkMs`; they keep theirs unless given. */
    growTo?: string;
    checkMs?: number;
  };

type Environment = { accountId: string; projectId: string; environmentId: string };

const NO_ARCHIVE =
  "Only PostgreSQL on CloudNativePG has an archive, from which a moment can be restored. Addons keep what they were made with.";
/** The grace period of a server is a minute. */
const REMOVE_MS = 90_000;
/** The status of a StatefulSet changes often while its pod starts. */
const MAX_ATTEMPTS = 10;

/**
 * Addons on a cluster: each a StatefulSet with one pod and one volume, a Service of the addon's name, a Secret, and a
 * policy that admits only its environment. No connection to the servers is needed: a new password comes with a new pod.
 * Objects are applied, so two processes may do it at once.
 */
export function createKubernetesAddons(
  options: KubernetesAddonsOptions,
): Omit<AddonServers, keyof AddonReaders> & { stop: () => Promise<void> } {
  const { kube, namespacePrefix } = options;
  let changed = (_serviceId: string) => {};
  const watches = createNamespaceWatches<V1StatefulSet>(
    options,
    {
      watch: (wanted) => startWatches(kube, kinds.StatefulSet, wanted),
      eager: true,
      pods: "addon",
      podsOf: ({ metadata }, all) => [all.get(`${metadata?.name}-0`)].filter((pod) => pod !== undefined),
      statusOf: (set, [pod], now) => addonStatus(set, pod, now),
      async check(query, sets) {
        const sizeFor = sizesOf(sets, options.growTo);
        if (sizeFor) await growVolumes(options, query, sizeFor);
      },
    },
    (serviceId) => changed(serviceId),
  );
  const spaceOf = (environmentId: string) => namespaceOf(namespacePrefix, environmentId);
  const newer = newerPatches(options.patchImages);
  const patches = createPatches(
    "statefulset",
    newer,
    () => patchables(watches.servers().map(({ server: set, pods: [pod] }) => ({ set, pod }))),
    options.patchAfterMs,
  );

  /**
   * Applies the objects of an addon; the StatefulSet last, so that its pod finds all it needs. `restored`: its server starts
   * anew, by a pod with this mark.
   */
  async function applyObjects(addon: Addon, password: string, restored?: string): Promise<void> {
    const [name, namespace] = [nameOf(addon.serviceId), spaceOf(addon.environmentId)];
    for (let attempt = 1; ; attempt++) {
      const before = await kube.get(kinds.StatefulSet, name, namespace);
      if (Number(before?.metadata?.annotations?.[GENERATION] ?? 0) > addon.generation)
        throw new Error("an addon has a newer password than this process knows");
      if (attempt > 1 && !before) throw new Error("an addon was removed while it was applied");
      const patch = addon.serviceId === patches.next() ? newer(addon.type, imageOf(before) ?? "") : undefined;
      const template = {
        [PASSWORD]: passwordMark(password),
        [SIZE]: addon.size,
        ...(restored !== undefined && { [RESTORED]: restored }),
      };
      const fixed = fixedSettings(before, template, patch) ?? newSettings(addon, options);
      const { policy, secret, service, set } = addonObjects(addon, fixed, password, options);
      if (attempt === 1) {
        await kube.apply(kinds.NetworkPolicy, policy);
        await kube.apply(kinds.Secret, secret);
        await kube.apply(kinds.Service, service);
      }
      // Refused when the set has changed since it was read, or is gone: another process may have a newer password.
      const { resourceVersion, uid } = before?.metadata ?? {};
      const conflict = await kube
        .apply(kinds.StatefulSet, { ...set, metadata: { ...set.metadata, resourceVersion, uid } })
        .then(
          () => undefined,
          (error) => error,
        );
      if (!conflict) return grow(addon);
      if (!isStatus(conflict, 409) || attempt === MAX_ATTEMPTS) throw conflict;
    }
  }

  async function serverOf({ serviceId, environmentId }: Addon) {
    const set = await kube.get(kinds.StatefulSet, nameOf(serviceId), spaceOf(environmentId));
    const image = imageOf(set);
    const made = set?.spec?.volumeClaimTemplates?.[0]?.spec?.resources?.requests?.storage;
    const storage = made && largerOf(made, askedOf(set));
    return image && storage ? { image, storage } : undefined;
  }

  const volumesOf = ({ serviceId, environmentId }: PlacedAddon) => ({
    namespace: spaceOf(environmentId),
    labels: selector({ [label("serviceId")]: serviceId, [label("kind")]: "addon" }),
  });

  async function grow(addon: Addon): Promise<void> {
    const { storageGib } = addon;
    if (storageGib !== undefined) await growVolumes(options, volumesOf(addon), () => quantityOf(storageGib));
  }

  /** Removes the Secrets of an addon's passwords, except the one of this name. */
  async function removeSecrets(serviceId: string, namespace: string, except?: string): Promise<void> {
    const labels = selector({ [label("serviceId")]: serviceId, [label("kind")]: "addon" });
    for (const { name } of await kube.listMetadata(kinds.Secret, { namespace, labels }))
      if (name && name !== except) await kube.remove(kinds.Secret, name, namespace);
  }

  return {
    ownServer: ["postgres", "redis"],
    postgresEngine: async () => undefined,
    choiceOf: (type) => choiceOfVersions(type, imagesOf(type, options)),
    async describe(addon) {
      const set = await kube.get(kinds.StatefulSet, nameOf(addon.serviceId), spaceOf(addon.environmentId));
      const storageBytes = await smallestVolume(kube, volumesOf(addon));
      return { version: versionOf(imageOf(set)), storageBytes };
    },
    cannotGrow: (addon, storageGib) => refusesGrowth(kube, volumesOf(addon), quantityOf(storageGib)),
    backups: createKubernetesBackups({ ...options, serverOf, restart: applyObjects, noArchive: NO_ARCHIVE }),
    async ensure(addon, password) {
      const { serviceId, environmentId } = addon;
      const namespace = spaceOf(environmentId);
      await options.ensureNamespace(addon);
      await applyObjects(addon, password);
      watches.markComplete(namespace, serviceId);
      const pod = await kube.get(kinds.Pod, `${nameOf(serviceId)}-0`, namespace);
      const outcome = addonOutcome(pod, { mark: passwordMark(password), size: addon.size }, Date.now());
      if (outcome.state === "ready")
        await removeSecrets(serviceId, namespace, secretName(serviceId, password));
      return outcome;
    },
    address: ({ type, environmentId, name }) => ({
      host: `${name}.${spaceOf(environmentId)}.svc`,
      port: programs[type].port,
    }),
    async remove({ serviceId, environmentId }) {
      const name = nameOf(serviceId);
      const namespace = environmentId ? spaceOf(environmentId) : watches.namespaceOf(name);
      if (!namespace || !(await kube.get(kinds.Namespace, namespace))) return;
      // Deletes the volume too.
      await kube.remove(kinds.StatefulSet, name, namespace, { propagationPolicy: "Foreground" });
      const labels = selector({ [label("serviceId")]: serviceId });
      for (const { name = "" } of await kube.listMetadata(kinds.Service, { namespace, labels }))
        await kube.remove(kinds.Service, name, namespace);
      for (const deadline = Date.now() + REMOVE_MS; ; await delay(250)) {
        const set = await kube.get(kinds.StatefulSet, name, namespace);
        const pod = await kube.get(kinds.Pod, `${name}-0`, namespace);
        if (!set && !pod) break;
        if (Date.now() > deadline) throw new Error("the server of an addon has not ended yet");
      }
      await removeSecrets(serviceId, namespace);
      await kube.remove(kinds.NetworkPolicy, name, namespace);
    },
    async status({ serviceId, environmentId }) {
      const namespace = environmentId ? spaceOf(environmentId) : watches.namespaceOf(nameOf(serviceId));
      if (!namespace) return undefined;
      const found = (await watches.listIn(namespace)).find((one) => one.serviceId === serviceId);
      return found?.serviceId === patches.next() && found ? { ...found, outdated: true } : found;
    },
    async list() {
      const all = await watches.list();
      const moving = patches.next();
      return all.map((one) => (one.serviceId === moving ? { ...one, outdated: true } : one));
    },
    measure: watches.measure,
    watch(listener) {
      changed = listener;
      patches.report();
    },
    async stop() {
      patches.stop();
      await watches.stop();
    },
  };
}

/**
 * Returns the settings with which an existing server was created, or with the image that it moves to. `template` is what
 * its pods are to be annotated with: one of a former version is not restarted for a limit that it has not yet.
 */
function fixedSettings(
  set: V1StatefulSet | undefined,
  template: Record<string, string>,
  patch?: string,
): FixedSettings | undefined {
  const image = patch ?? imageOf(set);
  const moved = patch ?? set?.metadata?.annotations?.[MOVED];
  const claim = set?.spec?.volumeClaimTemplates?.[0]?.spec;
  const storage = claim?.resources?.requests?.storage;
  const { metadata, spec } = set?.spec?.template ?? {};
  const restarts =
    patch !== undefined ||
    Object.entries(template).some(([name, value]) => metadata?.annotations?.[name] !== value);
  const restored = template[RESTORED] ?? metadata?.annotations?.[RESTORED];
  const anyDisk = !restarts && spec?.containers[0]?.resources?.limits?.["ephemeral-storage"] === undefined;
  return image && storage
    ? { image, moved, storage, storageClass: claim.storageClassName, restored, ...(anyDisk && { anyDisk }) }
    : undefined;
}

/** Returns the size that users asked for of the volume of a server. */
function askedOf(set: V1StatefulSet | undefined): string | undefined {
  const gib = set?.metadata?.annotations?.[STORAGE];
  return gib === undefined ? undefined : quantityOf(Number(gib));
}

/**
 * Returns what says how large the volume of a service is to be at least: as its users asked, and `growTo`. Undefined where all
 * keep what they have.
 */
function sizesOf(sets: V1StatefulSet[], growTo: string | undefined) {
  const asked = new Map(sets.map((set) => [set.metadata?.labels?.[label("serviceId")], askedOf(set)]));
  if (growTo === undefined && [...asked.values()].every((size) => size === undefined)) return undefined;
  return (serviceId: string | undefined) => {
    const own = asked.get(serviceId);
    return growTo !== undefined && own !== undefined ? largerOf(growTo, own) : (own ?? growTo);
  };
}

function newSettings(
  { type, version, storageGib }: Addon,
  options: Pick<KubernetesAddonsOptions, "images" | "earlierImages" | "storage">,
): FixedSettings {
  const { size, className } = options.storage;
  const image = imageFor(type, version, imagesOf(type, options));
  return {
    image,
    storage: storageGib === undefined ? size : quantityOf(storageGib),
    storageClass: className,
  };
}

/** Returns the images that an addon can be made with; the first one unless its version says another. */
export function imagesOf(
  type: AddonType,
  { images, earlierImages = {} }: Pick<KubernetesAddonsOptions, "images" | "earlierImages">,
): string[] {
  return [images[type], ...(earlierImages[type] ?? [])];
}
