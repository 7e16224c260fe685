import { setTimeout as delay } from "node:timers/promises";
import type { V1StatefulSet } from "@kubernetes/client-node";
import * as kinds from "../../kube/kinds.ts";
import { label, nameOf, namespaceOf, selector } from "../../kube/names.ts";
import { startWatches, type WatchScope } from "../../kube/watch/watches.ts";
import type { AddonType } from "../../terms/services.ts";
import type { Addon, AddonReaders, AddonServers } from "../port.ts";
import { createKubernetesBackups, type KubernetesBackupsOptions } from "./backups/adapter.ts";
import { createNamespaceWatches } from "./namespace-watch.ts";
import { createPatches, imageOf, newerPatches, patchables } from "./patches.ts";
import { type ApplyOptions, createApply } from "./server/apply.ts";
import { type Ordinal, podName, secretName } from "./server/manifests.ts";
import { addonOutcome, addonStatus } from "./server/pod-status.ts";
import { passwordMark, programs } from "./server/server-scripts.ts";
import {
  askedOf,
  growVolumes,
  largerOf,
  quantityOf,
  refusesGrowth,
  sizesOf,
  smallestVolume,
  volumesOf,
} from "./server/volumes.ts";
import { createStandbys } from "./standby/adapter.ts";
import { pairOf } from "./standby/pair.ts";
import { choiceOfVersions, imagesOf, versionOf } from "./versions.ts";

export type KubernetesAddonsOptions = Omit<ApplyOptions, "patchOf"> &
  Omit<KubernetesBackupsOptions, "restart" | "serverOf" | "noArchive" | "atMoment"> & {
    watch: WatchScope;
    /** Creates an environment's namespace with all that its services need. */
    ensureNamespace: (environment: Environment) => Promise<unknown>;
    /** Whether an environment's namespace exists. */
    hasNamespace: (namespace: string) => boolean;
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
/**
 * Addons on a cluster: each a StatefulSet with one pod and one volume, a Service of the addon's name, a Secret, and a
 * policy that admits only its environment. A new password comes with a new pod, so no connection to the servers is needed, except
 * where a redis addon has a standby: that is a second pod of its StatefulSet. Objects are applied, so two processes may do it at once.
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
      podsOf: ({ metadata }, all) =>
        [0, 1].map((ordinal) => all.get(`${metadata?.name}-${ordinal}`)).filter((pod) => pod !== undefined),
      statusOf: addonStatus,
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
    () => patchables(watches.servers().map(({ server: set, pods }) => ({ set, pods }))),
    options.patchAfterMs,
  );

  const { applyObjects, applyPair } = createApply({
    ...options,
    patchOf: ({ serviceId, type }, image) =>
      serviceId === patches.next() ? newer(type, image ?? "") : undefined,
  });
  const standbys = createStandbys({ ...options, applyPair });

  /** Starts the server of an addon anew from what its volume has, by a pod with this mark. */
  async function restart(addon: Addon, password: string, mark: string, ordinal: Ordinal): Promise<void> {
    const set = await applyObjects(addon, password, { restored: { mark, ordinal } });
    // Its primary has not the mark yet.
    if (pairOf(set)) await standbys.settle(addon, password);
  }

  async function serverOf({ serviceId, environmentId }: Addon) {
    const set = await kube.get(kinds.StatefulSet, nameOf(serviceId), spaceOf(environmentId));
    const image = imageOf(set);
    const made = set?.spec?.volumeClaimTemplates?.[0]?.spec?.resources?.requests?.storage;
    const storage = made && largerOf(made, askedOf(set));
    return image && storage ? { image, storage, primary: pairOf(set)?.primary ?? 0 } : undefined;
  }

  /** Removes the Secrets of an addon, except those of these names. */
  async function removeSecrets(serviceId: string, namespace: string, ...except: string[]): Promise<void> {
    const labels = selector({ [label("serviceId")]: serviceId, [label("kind")]: "addon" });
    for (const { name } of await kube.listMetadata(kinds.Secret, { namespace, labels }))
      if (name && !except.includes(name)) await kube.remove(kinds.Secret, name, namespace);
  }

  return {
    ownServer: ["postgres", "redis"],
    postgresEngine: async () => undefined,
    choiceOf: (type) => choiceOfVersions(type, imagesOf(type, options)),
    async describe(addon) {
      const set = await kube.get(kinds.StatefulSet, nameOf(addon.serviceId), spaceOf(addon.environmentId));
      const storageBytes = await smallestVolume(kube, volumesOf(namespacePrefix, addon));
      return { version: versionOf(imageOf(set)), storageBytes };
    },
    cannotGrow: (addon, storageGib) =>
      refusesGrowth(kube, volumesOf(namespacePrefix, addon), quantityOf(storageGib)),
    backups: createKubernetesBackups({ ...options, serverOf, restart, noArchive: NO_ARCHIVE }),
    async ensure(addon, password) {
      const { serviceId, environmentId } = addon;
      const namespace = spaceOf(environmentId);
      await options.ensureNamespace(addon);
      const set = await applyObjects(addon, password);
      watches.markComplete(namespace, serviceId);
      if (pairOf(set)) {
        const { outcome, secrets } = await standbys.settle(addon, password);
        if (outcome.state === "ready")
          await removeSecrets(serviceId, namespace, secretName(serviceId, password), ...secrets);
        return outcome;
      }
      const pod = await kube.get(kinds.Pod, podName(serviceId, 0), namespace);
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
        const pods = await Promise.all(
          ([0, 1] as const).map((ordinal) => kube.get(kinds.Pod, podName(serviceId, ordinal), namespace)),
        );
        if (!set && pods.every((pod) => pod === undefined)) break;
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
