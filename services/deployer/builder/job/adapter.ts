import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { parseImageReference } from "../../images/image-reference.ts";
import { isStatus, type Kube } from "../../kube/client.ts";
import { Job, Pod, Secret } from "../../kube/kinds.ts";
import { selector } from "../../kube/names.ts";
import { imageArtifact, imageRef, type Logger } from "../../runtime/port.ts";
import type { S3Store } from "../../store/s3/adapter.ts";
import {
  type Builder,
  BuildFailure,
  BuildHandedOver,
  type BuildRequest,
  type BuildResult,
  type BuildRuntime,
} from "../port.ts";
import { followJob } from "./follow-job.ts";
import { buildLabels, type JobSettings, jobName, jobOf, ownedBy, secretOf } from "./job-manifest.ts";
import {
  type BaseImages,
  cacheTag,
  IMAGE_LABELS,
  imageTag,
  type JobRequest,
  type RegistryTarget,
} from "./job-request.ts";
import { builtImages } from "./registry/built-images.ts";
import { connectRegistry, repositoryOf } from "./registry/registry.ts";

export type JobBuilderOptions = JobSettings & {
  kube: Kube;
  /** Builds read archives from it, by signed URLs. */
  store: Pick<S3Store, "stat" | "presignGet">;
  registry: Omit<RegistryTarget, "auth"> & {
    /** Path of a docker configuration with the credentials, read for each build. */
    authFile?: string;
  };
  baseImages: BaseImages;
  /** Variables that build steps see: package registries, proxies. They are no secrets. */
  variables: Record<string, string>;
  log: Logger;
};

/** A signed URL outlives the time its build may wait for a node. */
const URL_SECONDS = 3_600;
const POLL_MS = 150;
const DELETE_TIMEOUT_MS = 120_000;

/**
 * Builds on a cluster: one Job for each build, which ends as an image in a registry. Any process goes on with
 * a Job that another began; a finished image is found by its tag when its Job is no more.
 */
export function createJobBuilder(options: JobBuilderOptions): Builder {
  const { kube, namespace, store, log } = options;
  const { push, pull, insecure } = options.registry;
  const place = async (): Promise<RegistryTarget> => {
    const { authFile } = options.registry;
    const auth = authFile === undefined ? undefined : await readFile(authFile, "utf8");
    return { push, pull, insecure, ...(auth !== undefined && { auth }) };
  };
  const isBuilt = builtImages(options.registry);
  const registry = async () => connectRegistry(await place());

  async function finished(buildId: string): Promise<BuildResult | undefined> {
    const tag = imageTag(push, buildId);
    const image = await (await registry()).find(tag);
    if (!image || image.labels[IMAGE_LABELS.build] !== buildId) return undefined;
    const { [IMAGE_LABELS.command]: command, [IMAGE_LABELS.commit]: commit } = image.labels;
    return {
      artifact: imageArtifact(`${repositoryOf(tag).replace(push, pull)}@${image.digest}`),
      runtime: image.labels[IMAGE_LABELS.runtime] as BuildRuntime,
      ...(command !== undefined && { command }),
      ...(commit !== undefined && { commit }),
    };
  }

  async function sourceOf({ source, timeoutMs }: BuildRequest): Promise<JobRequest["source"]> {
    if (source.kind === "git") return source;
    if (!(await store.stat(source.key)))
      throw new BuildFailure(
        "source",
        "archive_missing",
        "The uploaded archive is no longer there; upload it again.",
      );
    const seconds = Math.ceil(timeoutMs / 1000) + URL_SECONDS;
    const { key, digest } = source;
    return { kind: "archive", url: await store.presignGet(key, seconds), digest };
  }

  async function begin(request: BuildRequest): Promise<void> {
    const { buildId, serviceId, type, limits, dockerfile, command, port, timeoutMs } = request;
    const given: JobRequest = {
      ...{ buildId, serviceId, type, limits, dockerfile, command, port, timeoutMs },
      source: await sourceOf(request),
      registry: await place(),
      baseImages: options.baseImages,
      variables: options.variables,
    };
    await kube.apply(Secret, secretOf(options, given));
    try {
      const job = await kube.create(Job, jobOf(options, given));
      await kube.merge(Secret, ownedBy(job));
    } catch (error) {
      if (!isStatus(error, 409)) throw error; // another process began it at the same moment
    }
  }

  /** Has the cluster remove the Job and all of it. */
  async function deleteJob(buildId: string): Promise<void> {
    const name = jobName(buildId);
    await kube.remove(Job, name, namespace, { propagationPolicy: "Foreground" });
    await kube.remove(Secret, name, namespace);
  }

  /** Removes the Job and all of it; resolves once its pod is gone. */
  async function remove(buildId: string): Promise<void> {
    const name = jobName(buildId);
    await deleteJob(buildId);
    const labels = selector(buildLabels(buildId));
    for (const until = Date.now() + DELETE_TIMEOUT_MS; ; ) {
      const pods = await kube.list(Pod, { namespace, labels });
      if (pods.items.length === 0 && !(await kube.get(Job, name, namespace))) return;
      if (Date.now() > until) throw new Error(`the Job ${name} does not end`);
      await delay(POLL_MS);
    }
  }

  async function buildOnce(request: BuildRequest, signal: AbortSignal): Promise<BuildResult> {
    const { buildId } = request;
    const job = await kube.get(Job, jobName(buildId), namespace);
    if (job?.metadata?.deletionTimestamp) await remove(buildId);
    if (!job || job.metadata?.deletionTimestamp) {
      const before = await finished(buildId);
      if (before) return before;
      await begin(request);
    }
    const end = await followJob(kube, { namespace, buildId }, request, log, signal);
    if ("result" in end) return end.result;
    if ("broken" in end) throw new Error(end.broken);
    const { stage, code, message } = end.failure;
    throw new BuildFailure(stage, code, message);
  }

  return {
    resumes: true,
    async build(request, signal) {
      checkId(request.buildId);
      signal.throwIfAborted();
      const { buildId } = request;
      try {
        const result = await buildOnce(request, signal);
        // Nothing of it runs any more, and the image says what came of it.
        await deleteJob(buildId).catch((error) =>
          log.warn({ err: error, buildId }, "a Job stays for a while"),
        );
        return result;
      } catch (error) {
        const left = signal.aborted && signal.reason instanceof BuildHandedOver;
        if (!left) await remove(buildId);
        throw error;
      }
    },
    async discard(buildId) {
      checkId(buildId);
      await remove(buildId);
      const tag = imageTag(push, buildId);
      const image = await (await registry()).find(tag);
      if (image?.labels[IMAGE_LABELS.build] === buildId)
        await removeImage(`${repositoryOf(tag)}@${image.digest}`);
    },
    async removeArtifact(artifact, serviceId) {
      const ref = parseImageReference(imageRef(artifact) ?? "");
      if ("problem" in ref || !ref.digest || !isBuilt(ref)) return;
      const reference = `${push}/apps@${ref.digest}`;
      const image = await (await registry()).find(reference);
      if (image?.labels[IMAGE_LABELS.service] !== serviceId) return;
      const buildId = image.labels[IMAGE_LABELS.build];
      if (buildId !== undefined) await remove(buildId);
      await removeImage(reference);
    },
    async removeCaches(serviceId) {
      const tag = cacheTag(push, serviceId);
      const image = await (await registry()).find(tag);
      if (image) await removeImage(`${repositoryOf(tag)}@${image.digest}`);
    },
  };

  async function removeImage(reference: string): Promise<void> {
    if (!(await (await registry()).remove(reference)))
      log.warn({ reference }, "the registry does not allow images to be removed");
  }
}

function checkId(buildId: string): void {
  // It names objects of the cluster and a tag.
  if (!/^[A-Za-z0-9]([A-Za-z0-9_-]{0,58}[A-Za-z0-9])?$/.test(buildId))
    throw new Error(`not a build id: ${JSON.stringify(buildId)}`);
}
