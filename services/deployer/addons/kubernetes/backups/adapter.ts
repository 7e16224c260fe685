import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Kube } from "../../../kube/client.ts";
import * as kinds from "../../../kube/kinds.ts";
import { namespaceOf } from "../../../kube/names.ts";
import type { Logger } from "../../../shared/logger.ts";
import type { S3Store } from "../../../store/s3/adapter.ts";
import { BackupRefusal } from "../../../terms/backup-refusal.ts";
import type { Addon, AddonBackups } from "../../port.ts";
import { RESTORED } from "../server/annotations.ts";
import { type Ordinal, podName } from "../server/manifests.ts";
import { programs, UNDO } from "../server/server-scripts.ts";
import type { Copy, CopyOptions } from "./copy-job.ts";
import { type CopyRequest, partSizes } from "./copy-request.ts";
import { removeCopy, runCopy } from "./run-copy.ts";

export type KubernetesBackupsOptions = Omit<CopyOptions, "copyImage"> & {
  kube: Kube;
  log: Logger;
  /** How data gets to the object store and back; without it, there are no backups. */
  copies?: {
    /** The image with the program of `main.ts`: the platform's own. */
    image: string;
    store: Pick<S3Store, "beginParts" | "completeParts" | "abortParts" | "presignGet">;
  };
  /**
   * Returns the image of an addon's server, the size of its volume, and which one of a StatefulSet's servers it is; undefined
   * without a server.
   */
  serverOf: (addon: Addon) => Promise<{ image: string; storage: string; primary?: Ordinal } | undefined>;
  /** Why addons have no archive of their past. */
  noArchive: string;
  /** Calls `use` with the name of a host at which a server has the data that an addon had at a moment. Only with an archive. */
  atMoment?: <T>(
    addon: Addon,
    at: Date,
    signal: AbortSignal,
    use: (host: string) => Promise<T>,
  ) => Promise<T>;
  /** Has the server of an addon started anew by a pod with this mark, if it is still this one. Only for redis. */
  restart: (addon: Addon, password: string, restored: string, ordinal: Ordinal) => Promise<void>;
};

const CONTENT_TYPE = "application/octet-stream";
/** Longer than a copy may take. */
const URL_SECONDS = 7 * 3_600;
/** For a server to read its data. */
const START_MS = 900_000;
/** After as many, a server has shown that it does not start. */
const MOST_RESTARTS = 3;
const POLL_MS = 1_000;

/**
 * Backups of addons on a cluster: a Job in the namespace of the addon runs the database's programs from the image of its
 * server, and the platform's image carries what they write to the object store, or back.
 */
export function createKubernetesBackups(options: KubernetesBackupsOptions): AddonBackups {
  const { kube, log, copies, namespacePrefix, serverOf, restart } = options;
  const spaceOf = ({ environmentId }: Pick<Addon, "environmentId">) =>
    namespaceOf(namespacePrefix, environmentId);

  function requireCopies() {
    if (!copies) throw new BackupRefusal(NO_IMAGE);
    return copies;
  }

  async function run(
    addon: Addon,
    password: string,
    request: CopyRequest,
    signal: AbortSignal,
    more: Pick<Copy, "mark" | "ordinal"> & { aside?: boolean } = {},
  ) {
    const server = await serverOf(addon);
    if (!server) throw new Error("an addon has no server");
    const { image: serverImage, storage } = server;
    const { aside, ...volume } = more;
    return runCopy(
      kube,
      { addon, password, serverImage, request, ...volume, ...(aside && { scratch: storage }) },
      { ...options, copyImage: requireCopies().image },
      signal,
    );
  }

  /** Starts a server from the backup that its volume has; from its data of before when it does not start from that. */
  async function startFrom(
    addon: Addon,
    password: string,
    mark: string,
    ordinal: Ordinal,
    signal: AbortSignal,
  ): Promise<void> {
    await restart(addon, password, mark, ordinal);
    for (const until = Date.now() + START_MS; ; await delay(POLL_MS, undefined, { signal })) {
      const pod = await kube.get(kinds.Pod, podName(addon.serviceId, ordinal), spaceOf(addon));
      const isNew = pod?.metadata?.annotations?.[RESTORED] === mark && !pod.metadata.deletionTimestamp;
      const ready = pod?.status?.conditions?.some(
        ({ type, status }) => type === "Ready" && status === "True",
      );
      if (isNew && ready) return;
      const restarts = isNew ? (pod.status?.containerStatuses?.[0]?.restartCount ?? 0) : 0;
      if (restarts < MOST_RESTARTS && Date.now() < until) continue;
      await restart(addon, password, `${mark}${UNDO}`, ordinal);
      throw new BackupRefusal(
        "The server does not start with the backup's data, and has its data of before.",
      );
    }
  }

  async function make(addon: Addon, password: string, key: string, signal: AbortSignal) {
    const { store } = requireCopies();
    const { id, urls } = await store.beginParts(key, CONTENT_TYPE, {
      most: partSizes.length,
      expiresInSeconds: URL_SECONDS,
    });
    try {
      const send = urls.map((url, at) => ({ url, bytes: partSizes[at]! }));
      const { type, name } = addon;
      const redis = type === "redis" ? { redis: { host: name, port: programs.redis.port } } : {};
      const report = await run(addon, password, { send, ...redis }, signal);
      if (!("parts" in report)) throw new Error("a copy reports no parts");
      await store.completeParts(key, id, report.parts);
      return { version: report.version };
    } catch (error) {
      // What is left then goes with the next attempt.
      await store.abortParts(key, id).catch(() => {});
      throw error;
    }
  }

  /** Has what was written up to now archived. A server that is gone archives nothing more, and is no reason not to go back. */
  const archiveNow = (addon: Addon, password: string, signal: AbortSignal) =>
    run(addon, password, { archive: true }, signal).catch((err) => {
      signal.throwIfAborted();
      log.warn({ err, serviceId: addon.serviceId }, "the newest changes of an addon could not be archived");
    });

  return {
    unsupported: async () => (copies ? undefined : NO_IMAGE),
    noArchive: () => options.noArchive,
    pointInTime: async () => ({ reason: options.noArchive }),
    async make(addon, password, key, signal, at) {
      if (!at) return make(addon, password, key, signal);
      if (!options.atMoment) throw new BackupRefusal(options.noArchive);
      await archiveNow(addon, password, signal);
      return options.atMoment(addon, at, signal, (name) => make({ ...addon, name }, password, key, signal));
    },
    async restore(addon, password, { key, foreign, uploaded }, signal) {
      const url = await requireCopies().store.presignGet(key, URL_SECONDS);
      if (addon.type === "postgres")
        return void (await run(addon, password, { fetch: url, to: "pipe", foreign, uploaded }, signal));
      const mark = randomBytes(6).toString("hex");
      const ordinal = (await serverOf(addon))?.primary ?? 0;
      await run(addon, password, { fetch: url, to: "volume" }, signal, { mark, ordinal });
      await startFrom(addon, password, mark, ordinal, signal);
    },
    async prove(addon, key, signal) {
      const url = await requireCopies().store.presignGet(key, URL_SECONDS);
      const to = addon.type === "postgres" ? "pipe" : "scratch";
      const report = await run(addon, "", { fetch: url, to }, signal, { aside: true });
      if (report.counted === undefined) throw new Error("a proof reports no count");
      return { counted: report.counted };
    },
    async removeProof(addon) {
      if (await kube.get(kinds.Namespace, spaceOf(addon))) await removeCopy(kube, addon, "proof", options);
    },
  };
}

const NO_IMAGE =
  "This installation does not say which image copies the data of addons. Its chart is older than its deployer: upgrade it.";
