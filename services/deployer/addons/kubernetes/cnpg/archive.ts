import { setTimeout as delay } from "node:timers/promises";
import type { V1Pod } from "@kubernetes/client-node";
import type { Kube } from "../../../kube/client.ts";
import * as kinds from "../../../kube/kinds.ts";
import { nameOf, namespaceOf, selector } from "../../../kube/names.ts";
import { readPodLog } from "../../../kube/pods/pod-log.ts";
import type { Logger } from "../../../shared/logger.ts";
import { toStorableText } from "../../../terms/storable-text.ts";
import type { Addon, PlacedAddon, PointInTime } from "../../port.ts";
import {
  archiveName,
  archivePrefix,
  archiveSecretOf,
  MOMENT,
  momentClusterOf,
  momentName,
  momentPolicyOf,
  objectStoreOf,
  scheduledBackupOf,
} from "./archive-manifests.ts";
import { archiveOf, CLUSTER, type CnpgManifestOptions } from "./manifests.ts";
import { isServing } from "./status.ts";

export type ArchivesOptions = CnpgManifestOptions & {
  kube: Kube;
  log: Logger;
  /** Removes all objects of the bucket whose names begin so. */
  emptyArchive?: (prefix: string) => Promise<void>;
};

export const NO_ARCHIVE =
  "This installation keeps no archive of PostgreSQL addons, from which a moment can be restored: apps.addons.archive is not set.";
const NOT_YET =
  "This addon was made before the installation kept an archive. It has one from its next change of size, replicas or password on.";
const POLL_MS = 2_000;
const REMOVE_MS = 180_000;
/** Characters of the operator's own words in a message, and in the log. */
const MAX_QUOTE = 300;
const MAX_LOG = 2_000;
/** The operator's container that recovers. */
const RECOVERY = "full-recovery";
/** A server that recovers is made anew after each failure: as many show that it will not. */
const MOST_FAILURES = 3;

/** Archives of PostgreSQL addons, by the Barman Cloud plugin of CloudNativePG (docs/addons.md#a-moment). */
export function createArchives(options: ArchivesOptions) {
  const { kube, log, archive, namespacePrefix } = options;
  const spaceOf = ({ environmentId }: Pick<PlacedAddon, "environmentId">) =>
    namespaceOf(namespacePrefix, environmentId);

  /** Removes the server of a moment; resolves when nothing of it is left. Idempotent. */
  async function removeMoment(serviceId: string, namespace: string): Promise<void> {
    const name = momentName(serviceId);
    await kube.remove(kinds.PostgresCluster, name, namespace, { propagationPolicy: "Foreground" });
    const theirs = { namespace, labels: selector({ [CLUSTER]: name }) };
    for (const until = Date.now() + REMOVE_MS; ; await delay(POLL_MS)) {
      const cluster = await kube.get(kinds.PostgresCluster, name, namespace);
      const left = await Promise.all([
        kube.listMetadata(kinds.Pod, theirs),
        kube.listMetadata(kinds.PersistentVolumeClaim, theirs),
      ]);
      if (!cluster && left.flat().length === 0) break;
      if (Date.now() > until) throw new Error("the server of a moment has not ended yet");
    }
    await kube.remove(kinds.NetworkPolicy, name, namespace);
    // The plugin recovers no server where one of this name has written.
    await options.emptyArchive?.(`${archivePrefix(serviceId)}${name}/`);
  }

  async function ensureMoment(addon: Addon, at: Date): Promise<void> {
    const [name, namespace] = [momentName(addon.serviceId), spaceOf(addon)];
    const before = await kube.get(kinds.PostgresCluster, name, namespace);
    // What an attempt left that was killed.
    if (before?.metadata?.annotations?.[MOMENT] === at.toISOString() && !before.metadata.deletionTimestamp)
      return;
    await removeMoment(addon.serviceId, namespace);
    const server = await kube.get(kinds.PostgresCluster, nameOf(addon.serviceId), namespace);
    if (!server) throw new Error("an addon has no server");
    await kube.apply(kinds.NetworkPolicy, momentPolicyOf(addon, server, options));
    await kube.apply(kinds.PostgresCluster, momentClusterOf(addon, at, server, options));
  }

  /** Waits until the server of a moment answers, for as long as reading the archive takes. */
  async function untilReady(addon: Addon, signal: AbortSignal): Promise<void> {
    const [name, namespace] = [momentName(addon.serviceId), spaceOf(addon)];
    for (; ; await delay(POLL_MS, undefined, { signal })) {
      const cluster = await kube.get(kinds.PostgresCluster, name, namespace);
      if (!cluster) throw new Error("the server of a moment was removed");
      const { items: pods } = await kube.list(kinds.Pod, {
        namespace,
        labels: selector({ [CLUSTER]: name }),
      });
      if (isServing(cluster, pods)) return;
      const failed = pods.filter(({ status }) => status?.phase === "Failed");
      if (failed.length >= MOST_FAILURES)
        throw new Error(`the server of a moment does not recover: ${await lastError(failed.at(-1)!)}`);
    }
  }

  /** Returns what the program that recovers says of its failure, for whoever runs the installation. */
  async function lastError({ metadata }: V1Pod): Promise<string> {
    const pod = { namespace: metadata?.namespace ?? "", name: metadata?.name ?? "" };
    let last = "no reason was given";
    for await (const line of readPodLog(kube, pod, { container: RECOVERY }))
      if (line.includes('"level":"error"')) last = line;
    return last.slice(0, MAX_LOG);
  }

  return {
    /** Makes what the plugin needs before the server of an addon does. */
    async prepare(addon: Addon): Promise<void> {
      if (!archive) return;
      await kube.apply(kinds.Secret, archiveSecretOf(addon, archive, options));
      await kube.apply(kinds.ObjectStore, objectStoreOf(addon, archive, options));
    },
    /** Has base backups made of a server that there is. */
    async schedule(addon: Addon, cluster: kinds.PostgresClusterObject): Promise<void> {
      if (archive) await kube.apply(kinds.ScheduledBackup, scheduledBackupOf(addon, cluster, options));
    },
    async pointInTime(addon: PlacedAddon): Promise<PointInTime> {
      if (!archive) return { reason: NO_ARCHIVE };
      const [name, namespace] = [nameOf(addon.serviceId), spaceOf(addon)];
      const [store, cluster] = await Promise.all([
        kube.get(kinds.ObjectStore, name, namespace),
        kube.get(kinds.PostgresCluster, name, namespace),
      ]);
      if (!store) return { reason: NOT_YET };
      const { serverName } = archiveOf(addon.serviceId);
      const from = store.status?.serverRecoveryWindow?.[serverName]?.firstRecoverabilityPoint;
      const failure = cluster && archiveFailureOf(cluster);
      return {
        ...(from !== undefined && { from: new Date(from) }),
        ...(failure !== undefined && { failure }),
      };
    },
    async atMoment<T>(
      addon: Addon,
      at: Date,
      signal: AbortSignal,
      use: (host: string) => Promise<T>,
    ): Promise<T> {
      signal.throwIfAborted();
      await ensureMoment(addon, at);
      try {
        await untilReady(addon, signal);
        return await use(`${momentName(addon.serviceId)}-rw`);
      } finally {
        // Whoever takes the backup next looks too.
        if (!signal.aborted)
          await removeMoment(addon.serviceId, spaceOf(addon)).catch((err) =>
            log.warn({ err, serviceId: addon.serviceId }, "the server of a moment could not be removed"),
          );
      }
    },
    /** Removes the archive of an addon whose server is gone, and all that was archived. Idempotent. */
    async remove(serviceId: string, namespace: string): Promise<void> {
      await removeMoment(serviceId, namespace);
      if (!archive) return;
      await kube.remove(kinds.ObjectStore, nameOf(serviceId), namespace);
      await kube.remove(kinds.Secret, archiveName(serviceId), namespace);
      await options.emptyArchive?.(archivePrefix(serviceId));
    },
  };
}

/** Returns why the archive of a server takes nothing new at present, as a sentence; undefined where it does, or there is none. */
export function archiveFailureOf({ status }: kinds.PostgresClusterObject): string | undefined {
  const archiving = status?.conditions?.find(({ type }) => type === "ContinuousArchiving");
  if (archiving?.status !== "False") return undefined;
  const words = toStorableText(archiving.message ?? "").slice(0, MAX_QUOTE);
  return `The archive takes nothing new at present. ${words}`.trim();
}
