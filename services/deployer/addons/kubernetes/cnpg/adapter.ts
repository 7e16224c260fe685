import { setTimeout as delay } from "node:timers/promises";
import { createReadGauge } from "../../../../kit/telemetry.ts";
import { isStatus, type Kube } from "../../../kube/client.ts";
import * as kinds from "../../../kube/kinds.ts";
import { nameOf, namespaceOf, selector } from "../../../kube/names.ts";
import { startWatches, type WatchScope } from "../../../kube/watch/watches.ts";
import type { Logger } from "../../../shared/logger.ts";
import type { AddonType } from "../../../terms/services.ts";
import type { Addon, AddonReaders, AddonServers, AddonStatus, PlacedAddon } from "../../port.ts";
import { createKubernetesBackups, type KubernetesBackupsOptions } from "../backups/adapter.ts";
import { createNamespaceWatches } from "../namespace-watch.ts";
import { createPatches, newerPatches } from "../patches.ts";
import { GENERATION, MOVED, SIZE } from "../server/annotations.ts";
import { programs } from "../server/server-scripts.ts";
import {
  growVolumes,
  largerOf,
  quantityOf,
  refusesGrowth,
  smallestVolume,
  wordsOf,
} from "../server/volumes.ts";
import { imageFor, versionOf } from "../versions.ts";
import { type ArchivesOptions, archiveFailureOf, createArchives, NO_ARCHIVE } from "./archive.ts";
import {
  CHANGED,
  CLUSTER,
  type CnpgManifestOptions,
  clusterOf,
  ofAddon,
  policyOf,
  secretOf,
  serviceOf,
} from "./manifests.ts";
import { clusterOutcome, clusterStatus, isWhole } from "./status.ts";

export type CnpgAddonsOptions = CnpgManifestOptions &
  Pick<KubernetesBackupsOptions, "copies"> &
  Pick<ArchivesOptions, "emptyArchive"> & {
    kube: Kube;
    log: Logger;
    watch: WatchScope;
    /** Creates an environment's namespace with all that its services need. */
    ensureNamespace: (addon: Addon) => Promise<unknown>;
    /** Whether an environment's namespace exists. */
    hasNamespace: (namespace: string) => boolean;
    /** Of new servers, the installation's first. */
    images: string[];
    storage: { size: string; className?: string };
    /** Those that running servers may move to. */
    patchImages: Record<AddonType, string[]>;
    /** For so long after it began a process may not know all servers yet, and moves none. */
    patchAfterMs?: number;
    checkMs?: number;
  };

/** The stop delay of a server is a minute. */
const REMOVE_MS = 120_000;
/** Others write the status of a Cluster, and with it the version that its change must have seen. */
const MAX_ATTEMPTS = 10;
/**
 * PostgreSQL addons on CloudNativePG: each a Cluster of its operator, whose primary a Service of the addon's name leads to.
 * A new password is another content of the Secret that the role's password comes from: no server restarts.
 */
export function createCnpgAddons(options: CnpgAddonsOptions): Omit<
  AddonServers,
  keyof AddonReaders | "ownServer" | "postgresEngine" | "choiceOf"
> & {
  stop: () => Promise<void>;
} {
  const { kube, namespacePrefix } = options;
  let changed = (_serviceId: string) => {};
  const watches = createNamespaceWatches<kinds.PostgresClusterObject>(
    options,
    {
      watch: (wanted) => startWatches(kube, kinds.PostgresCluster, wanted),
      eager: false,
      pods: "instance",
      podsOf: ({ metadata }, all) =>
        [...all.values()].filter((pod) => pod.metadata?.labels?.[CLUSTER] === metadata?.name),
      statusOf: clusterStatus,
    },
    (serviceId) => changed(serviceId),
  );
  const spaceOf = (environmentId: string) => namespaceOf(namespacePrefix, environmentId);
  const newer = newerPatches(options.patchImages);
  const patchable = () =>
    watches.servers().flatMap(({ server, pods }) => {
      const status = clusterStatus(server, pods, Date.now());
      const serves = status?.running === true && isWhole(server, pods);
      const { [MOVED]: moved } = server.metadata?.annotations ?? {};
      return status ? { ...status, image: server.spec?.imageName, serves, moved } : [];
    });
  const patches = createPatches("cnpg", newer, patchable, options.patchAfterMs);

  /** Applies the Secret unless it has a newer password, and returns its version. */
  async function applySecret(addon: Addon, password: string): Promise<string | undefined> {
    const [name, namespace] = [nameOf(addon.serviceId), spaceOf(addon.environmentId)];
    const held = await kube.listMetadata(kinds.Secret, { namespace, labels: ofAddon(addon.serviceId) });
    const before = held.find((secret) => secret.name === name);
    if (Number(before?.annotations?.[GENERATION] ?? 0) > addon.generation)
      throw new Error("an addon has a newer password than this process knows");
    const secret = secretOf(addon, password, options);
    // Refused when it has changed since it was read, is there or is gone: another process may have a newer password.
    const { resourceVersion, uid } = before ?? {};
    const { metadata } = before
      ? await kube.apply(kinds.Secret, { ...secret, metadata: { ...secret.metadata, resourceVersion, uid } })
      : await kube.create(kinds.Secret, secret);
    return metadata?.resourceVersion;
  }

  async function applyCluster(addon: Addon): Promise<kinds.PostgresClusterObject> {
    const [name, namespace] = [nameOf(addon.serviceId), spaceOf(addon.environmentId)];
    for (let attempt = 1; ; attempt++) {
      const before = await kube.get(kinds.PostgresCluster, name, namespace);
      if (attempt > 1 && !before) throw new Error("an addon was removed while it was applied");
      const cluster = clusterOf(addon, fixedSettings(addon, before), changedAt(before, addon), options);
      const { resourceVersion, uid } = before?.metadata ?? {};
      try {
        const metadata = { ...cluster.metadata, resourceVersion, uid };
        return await kube.apply(kinds.PostgresCluster, { ...cluster, metadata });
      } catch (error) {
        if (!isStatus(error, 409) || attempt === MAX_ATTEMPTS) throw error;
      }
    }
  }

  function fixedSettings(addon: Addon, before: kinds.PostgresClusterObject | undefined) {
    const { serviceId, version, storageGib } = addon;
    const { images, storage } = options;
    const asked = storageGib === undefined ? undefined : quantityOf(storageGib);
    if (!before?.spec) {
      const image = imageFor("postgres", version, images);
      return { image, storage: asked ?? storage.size, storageClass: storage.className };
    }
    const { imageName, storage: held } = before.spec;
    const patch = serviceId === patches.next() ? newer("postgres", imageName) : undefined;
    return {
      image: patch ?? imageName,
      moved: patch ?? before.metadata?.annotations?.[MOVED],
      storage: largerOf(held.size, asked),
      storageClass: held.storageClass,
    };
  }

  /** Marks the server that is to move now to a newer patch release. */
  function withTurn(statuses: AddonStatus[]): AddonStatus[] {
    const next = patches.next();
    return statuses.map((one) => (one.serviceId === next ? { ...one, outdated: true } : one));
  }

  const archives = createArchives(options);
  const backups = createKubernetesBackups({
    ...options,
    async serverOf({ serviceId, environmentId }) {
      const { spec } =
        (await kube.get(kinds.PostgresCluster, nameOf(serviceId), spaceOf(environmentId))) ?? {};
      return spec && { image: spec.imageName, storage: spec.storage.size };
    },
    restart: async () => {
      throw new Error("a PostgreSQL server is not restarted to restore it");
    },
    noArchive: NO_ARCHIVE,
    ...(options.archive && { atMoment: archives.atMoment }),
  });

  const podsOf = async ({ serviceId, environmentId }: Addon) => {
    const labels = selector({ [CLUSTER]: nameOf(serviceId) });
    return (await kube.list(kinds.Pod, { namespace: spaceOf(environmentId), labels })).items;
  };

  const volumesOf = ({ serviceId, environmentId }: PlacedAddon) => ({
    namespace: spaceOf(environmentId),
    labels: selector({ [CLUSTER]: nameOf(serviceId) }),
  });

  /** The operator does not, of a server that stopped because its volume is full. */
  async function grow(addon: Addon): Promise<void> {
    const { storageGib } = addon;
    if (storageGib !== undefined) await growVolumes(options, volumesOf(addon), () => quantityOf(storageGib));
  }

  return {
    async describe(addon) {
      const { serviceId, environmentId } = addon;
      const cluster = await kube.get(kinds.PostgresCluster, nameOf(serviceId), spaceOf(environmentId));
      const storageBytes = await smallestVolume(kube, volumesOf(addon));
      return { version: versionOf(cluster?.spec?.imageName), storageBytes };
    },
    cannotGrow: (addon, storageGib) => refusesGrowth(kube, volumesOf(addon), quantityOf(storageGib)),
    backups: {
      ...backups,
      noArchive: () => (options.archive ? undefined : NO_ARCHIVE),
      pointInTime: archives.pointInTime,
    },
    async ensure(addon, password) {
      await options.ensureNamespace(addon);
      await kube.apply(kinds.NetworkPolicy, policyOf(addon, options));
      const secretVersion = await applySecret(addon, password);
      await kube.apply(kinds.Service, serviceOf(addon, options));
      await archives.prepare(addon);
      let cluster: kinds.PostgresClusterObject;
      try {
        cluster = await applyCluster(addon);
        await grow(addon);
        await archives.schedule(addon, cluster);
      } catch (error) {
        // The operator checks what it is to do: an image whose tag does not begin with a version, for instance.
        if (!isStatus(error, 400, 403, 422)) throw error;
        options.log.warn(
          { err: error, serviceId: addon.serviceId },
          "the cluster refuses the server of an addon",
        );
        return { state: "failed", message: `The cluster refuses the server: ${wordsOf(error)}` };
      }
      watches.markComplete(spaceOf(addon.environmentId), addon.serviceId);
      return clusterOutcome(cluster, await podsOf(addon), { ...addon, secretVersion }, Date.now());
    },
    address: ({ environmentId, name }) => ({
      host: `${name}.${spaceOf(environmentId)}.svc`,
      port: programs.postgres.port,
    }),
    async remove({ serviceId, environmentId }) {
      const name = nameOf(serviceId);
      const namespace = environmentId ? spaceOf(environmentId) : watches.namespaceOf(name);
      if (!namespace || !(await kube.get(kinds.Namespace, namespace))) return;
      await kube.remove(kinds.PostgresCluster, name, namespace, { propagationPolicy: "Foreground" });
      for (const { name = "" } of await kube.listMetadata(kinds.Service, {
        namespace,
        labels: ofAddon(serviceId),
      }))
        await kube.remove(kinds.Service, name, namespace);
      // The operator's objects belong to the Cluster, and go with it, also where the operator is gone.
      const theirs = { namespace, labels: selector({ [CLUSTER]: name }) };
      for (const deadline = Date.now() + REMOVE_MS; ; await delay(250)) {
        const cluster = await kube.get(kinds.PostgresCluster, name, namespace);
        const pods = await kube.listMetadata(kinds.Pod, theirs);
        const volumes = await kube.listMetadata(kinds.PersistentVolumeClaim, theirs);
        if (!cluster && pods.length + volumes.length === 0) break;
        if (Date.now() > deadline) throw new Error("the server of an addon has not ended yet");
      }
      await archives.remove(serviceId, namespace);
      await kube.remove(kinds.Secret, name, namespace);
      await kube.remove(kinds.NetworkPolicy, name, namespace);
    },
    async status({ serviceId, environmentId }) {
      const namespace = environmentId ? spaceOf(environmentId) : watches.namespaceOf(nameOf(serviceId));
      if (!namespace) return undefined;
      return withTurn(await watches.listIn(namespace)).find((one) => one.serviceId === serviceId);
    },
    list: async () => withTurn(await watches.list()),
    measure: watches.measure,
    watch(listener) {
      changed = listener;
      patches.report();
      watchArchivesFailing(
        async () => watches.servers().filter(({ server }) => archiveFailureOf(server) !== undefined).length,
      );
    },
    async stop() {
      patches.stop();
      watchArchivesFailing(async () => 0);
      await watches.stop();
    },
  };
}

const watchArchivesFailing = createReadGauge({
  name: "berth_addon_archives_failing",
  help: "Addons whose archive takes nothing new, as known to the leading deployer",
});

/** Returns since when it is to have this size and as many servers: as before, or from now on. */
function changedAt(
  before: kinds.PostgresClusterObject | undefined,
  { size, replicas = 1 }: Addon,
): string | undefined {
  const { [SIZE]: held, [CHANGED]: at } = before?.metadata?.annotations ?? {};
  return before === undefined || (held === size && before.spec?.instances === replicas)
    ? at
    : String(Date.now());
}
