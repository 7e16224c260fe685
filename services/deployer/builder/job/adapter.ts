import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { findAppRepository } from "../../images/app-repositories.ts";
import { parseImageReference } from "../../images/image-reference.ts";
import { isStatus, type Kube } from "../../kube/client.ts";
import { Job, Pod, Secret } from "../../kube/kinds.ts";
import { selector } from "../../kube/names.ts";
import type { Logger } from "../../shared/logger.ts";
import type { S3Store } from "../../store/s3/adapter.ts";
import { imageArtifact, imageRef } from "../../terms/artifact.ts";
import { archiveMissing, BuildFailure } from "../build-failure.ts";
import {
  type Builder,
  BuildHandedOver,
  type BuildRequest,
  type BuildResult,
  type BuildRuntime,
  buildSettings,
} from "../port.ts";
import { followJob } from "./follow-job.ts";
import { buildLabels, type JobSettings, jobName, toJob, toOwnerPatch, toSecret } from "./job-manifest.ts";
import {
  type BaseImages,
  type BuildpacksImages,
  cacheTag,
  IMAGE_LABELS,
  imageTag,
  type JobRequest,
  type RegistryTarget,
} from "./job-request.ts";
import { builtImages } from "./registry/built-images.ts";
import { connectRegistry, repositoryOf, type StoredImage } from "./registry/registry.ts";

export type JobBuilderOptions = JobSettings & {
  kube: Kube;
  /** Builds read archives from it by signed URLs. */
  store: Pick<S3Store, "stat" | "presignGet">;
  registry: Omit<RegistryTarget, "auth"> & {
    /** Path of a docker configuration with the credentials, read anew for each build. */
    authFile?: string;
    /** Whether each account's images have a path of their own; what was pushed before is still found. */
    pathPerAccount?: boolean;
  };
  baseImages: BaseImages;
  /** None unless given. */
  buildpacks?: BuildpacksImages;
  /** Variables that build steps see, such as package registries and proxies. Not secret. */
  variables: Record<string, string>;
  log: Logger;
};

type Build = Pick<BuildRequest, "buildId" | "accountId">;
type BuiltImage = StoredImage & { repository: string };

/** A signed URL is valid this much longer than its build's time, because a build may wait for a node. */
const URL_SECONDS = 3_600;
const POLL_MS = 150;
const DELETE_TIMEOUT_MS = 120_000;

/**
 * Builds on a cluster: one Job for each build, whose result is an image in a registry. Any process can resume a Job that
 * another began; when the Job no longer exists, a finished image is found by its tag.
 */
export function createJobBuilder(options: JobBuilderOptions): Builder {
  const { kube, namespace, store, log } = options;
  const { push, pull, insecure, pathPerAccount } = options.registry;
  const readTarget = async (): Promise<RegistryTarget> => {
    const { authFile } = options.registry;
    const auth = authFile === undefined ? undefined : await readFile(authFile, "utf8");
    return { push, pull, insecure, ...(auth !== undefined && { auth }) };
  };
  const isBuilt = builtImages(options.registry);
  const registry = async () => connectRegistry(await readTarget());

  /** Returns the build's image, under the tag that it has now or had before accounts had paths of their own. */
  async function findImage({ buildId, accountId }: Build): Promise<BuiltImage | undefined> {
    for (const owner of pathPerAccount ? [accountId, undefined] : [undefined]) {
      const tag = imageTag(push, { buildId, accountId: owner });
      const image = await (await registry()).find(tag);
      if (image?.labels[IMAGE_LABELS.build] === buildId) return { ...image, repository: repositoryOf(tag) };
    }
    return undefined;
  }

  async function findResult(build: Build): Promise<BuildResult | undefined> {
    const image = await findImage(build);
    if (!image) return undefined;
    const { [IMAGE_LABELS.command]: command, [IMAGE_LABELS.commit]: commit } = image.labels;
    const { [IMAGE_LABELS.buildpacks]: buildpacks } = image.labels;
    return {
      artifact: imageArtifact(`${image.repository.replace(push, pull)}@${image.digest}`),
      runtime: image.labels[IMAGE_LABELS.runtime] as BuildRuntime,
      ...(command !== undefined && { command }),
      ...(commit !== undefined && { commit }),
      ...(buildpacks !== undefined && { buildpacks: JSON.parse(buildpacks) as string[] }),
    };
  }

  async function toJobSource({ source, timeoutMs }: BuildRequest): Promise<JobRequest["source"]> {
    if (source.kind === "git") return source;
    if (!(await store.stat(source.key))) throw archiveMissing();
    const seconds = Math.ceil(timeoutMs / 1000) + URL_SECONDS;
    const { key, digest } = source;
    return { kind: "archive", url: await store.presignGet(key, seconds), digest };
  }

  async function begin(request: BuildRequest): Promise<void> {
    const { buildId, serviceId, type, limits, port, site, timeoutMs } = request;
    const jobRequest: JobRequest = {
      ...(pathPerAccount && { accountId: request.accountId }),
      ...{ buildId, serviceId, type, limits, port, site, timeoutMs },
      ...buildSettings(request),
      source: await toJobSource(request),
      registry: await readTarget(),
      baseImages: options.baseImages,
      ...(options.buildpacks && { buildpacks: options.buildpacks }),
      variables: options.variables,
    };
    await kube.apply(Secret, toSecret(options, jobRequest));
    try {
      const job = await kube.create(Job, toJob(options, jobRequest));
      await kube.merge(Secret, toOwnerPatch(job));
    } catch (error) {
      if (!isStatus(error, 409)) throw error; // another process began it at the same moment
    }
  }

  /** Asks the cluster to remove the Job and everything it owns. */
  async function deleteJob(buildId: string): Promise<void> {
    const name = jobName(buildId);
    await kube.remove(Job, name, namespace, { propagationPolicy: "Foreground" });
    await kube.remove(Secret, name, namespace);
  }

  /** Deletes the Job; resolves once its pod is gone. Throws when that takes too long. */
  async function removeJob(buildId: string): Promise<void> {
    const name = jobName(buildId);
    await deleteJob(buildId);
    const labels = selector(buildLabels(buildId));
    for (const until = Date.now() + DELETE_TIMEOUT_MS; ; ) {
      const pods = await kube.list(Pod, { namespace, labels });
      if (pods.items.length === 0 && !(await kube.get(Job, name, namespace))) return;
      if (Date.now() > until) throw new Error(`the Job ${name} was not removed in time`);
      await delay(POLL_MS);
    }
  }

  async function buildOnce(request: BuildRequest, signal: AbortSignal): Promise<BuildResult> {
    const { buildId } = request;
    const job = await kube.get(Job, jobName(buildId), namespace);
    if (job?.metadata?.deletionTimestamp) await removeJob(buildId);
    if (!job || job.metadata?.deletionTimestamp) {
      const before = await findResult(request);
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
        // The Job has ended, and the image's labels describe the result.
        await deleteJob(buildId).catch((error) =>
          log.warn({ err: error, buildId }, "the Job of a finished build could not be deleted yet"),
        );
        return result;
      } catch (error) {
        const handedOver = signal.aborted && signal.reason instanceof BuildHandedOver;
        if (!handedOver) await removeJob(buildId);
        throw error;
      }
    },
    async discard(build) {
      checkId(build.buildId);
      await removeJob(build.buildId);
      const image = await findImage(build);
      if (image) await removeImage(`${image.repository}@${image.digest}`);
    },
    async removeArtifact(artifact, serviceId) {
      const ref = parseImageReference(imageRef(artifact) ?? "");
      if ("problem" in ref || !ref.digest || !isBuilt(ref)) return;
      const found = findAppRepository(ref.repository);
      if (!found) return;
      const reference = `${push}/${found.name}@${ref.digest}`;
      const image = await (await registry()).find(reference);
      if (image?.labels[IMAGE_LABELS.service] !== serviceId) return;
      const buildId = image.labels[IMAGE_LABELS.build];
      if (buildId !== undefined) await removeJob(buildId);
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
  // It is part of the names of cluster objects and of a tag.
  if (!/^[A-Za-z0-9]([A-Za-z0-9_-]{0,58}[A-Za-z0-9])?$/.test(buildId))
    throw new Error(`not a build id: ${JSON.stringify(buildId)}`);
}
