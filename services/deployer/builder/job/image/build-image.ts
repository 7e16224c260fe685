import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { fetch } from "../../../../kit/network/fetch.ts";
import { imageArtifact } from "../../../terms/artifact.ts";
import { archiveChanged, archiveMissing, toBuildFailure } from "../../build-failure.ts";
import type { BuildPlan } from "../../detect/build-plan.ts";
import type { BuildResult } from "../../port.ts";
import { logSiteVariables } from "../../site-variables.ts";
import { placeArchive, placeCommit } from "../../source/place-source.ts";
import { planBuild } from "../../source/source-root.ts";
import { withTimeLimit } from "../../time-limit.ts";
import { type BuiltByBuildpacks, buildFromBuildpacks } from "../buildpacks/from-buildpacks.ts";
import { IMAGE_LABELS, imageTag, type JobRequest, PATHS } from "../job-request.ts";
import { pushImage } from "../registry/push-image.ts";
import { repositoryOf } from "../registry/registry.ts";
import { setUpBuildah } from "./buildah.ts";
import { certificateVariables } from "./certificates.ts";
import { SOURCE_FOLDER } from "./dockerfile.ts";
import { buildFromDockerfile } from "./from-dockerfile.ts";
import { buildFromPlan } from "./from-plan.ts";
import type { BuildEvents, ImageBuild } from "./image-build.ts";

/** Builds a source into an image and pushes it. Throws `BuildFailure`, or another error when a retry may succeed. */
export async function buildImage(request: JobRequest, events: BuildEvents): Promise<BuildResult> {
  try {
    return await withTimeLimit({ ...request, ...events }, new AbortController().signal, (signal, log) =>
      build(request, { ...events, log }, signal),
    );
  } catch (error) {
    throw toBuildFailure(error);
  }
}

async function build(request: JobRequest, events: BuildEvents, signal: AbortSignal): Promise<BuildResult> {
  const work = join(PATHS.work, "berth");
  const context = join(work, "context");
  const app = join(context, SOURCE_FOLDER);
  mkdirSync(app, { recursive: true, mode: 0o755 });
  const own = { ...request.variables, ...certificateVariables() };
  const variables = { ...request.site?.values, ...own };
  const buildah = setUpBuildah(work, request.registry, variables);
  const whole: ImageBuild = { request, events, buildah, context, work, own, variables, signal };

  events.onStage("Fetching source");
  const commit = await placeSource(whole, app);
  events.onStage("Detecting runtime");
  const input = { ...request, containers: true as const, hasTool: () => true };
  const plan = await planBuild(input, app, events.log);
  events.log(plan.because);
  logSiteVariables(request.site, events.log);

  events.onStage("Building image");
  const { push, pull } = request.registry;
  const tag = imageTag(push, request);
  const image = { tag, labels: toLabels(request, plan, commit) };
  let storeDependencies: (() => Promise<void>) | undefined;
  let byBuildpacks: BuiltByBuildpacks | undefined;
  if (plan.runtime === "buildpacks") {
    byBuildpacks = await buildFromBuildpacks(whole, plan, image);
    storeDependencies = byBuildpacks.store;
  } else if (plan.dockerfile === undefined) storeDependencies = await buildFromPlan(whole, plan, image);
  else await buildFromDockerfile(whole, plan.dockerfile, image);
  const command = byBuildpacks?.command ?? plan.command;

  events.onStage("Pushing image");
  const digest = await pushImage((log) => buildah.push(tag, log, signal), { log: events.log, signal });
  events.log(command === undefined ? "Built." : `Built. It starts with: ${command}`);
  await storeDependencies?.();
  return {
    artifact: imageArtifact(`${repositoryOf(tag).replace(push, pull)}@${digest}`),
    runtime: plan.runtime,
    ...(command !== undefined && { command }),
    ...(commit !== undefined && { commit }),
    ...(byBuildpacks && { buildpacks: byBuildpacks.buildpacks }),
  };
}

/** Puts the source into `app`; returns the commit of a git source. */
async function placeSource(
  { request, events, work, variables, signal }: ImageBuild,
  app: string,
): Promise<string | undefined> {
  const { source, limits, timeoutMs } = request;
  const tmp = join(work, "tmp");
  if (source.kind === "git") {
    const env = { PATH: process.env.PATH ?? "", TMPDIR: tmp, ...variables };
    return placeCommit(source, { app, tmp, env, limits, timeoutMs, ...events }, signal);
  }
  const response = await fetch(source.url, { signal });
  if (response.status === 404) throw archiveMissing();
  if (!response.ok || !response.body)
    throw new Error(`the object store answers ${response.status} to the request for the archive`);
  // The digest is the store's ETag, without the quotes of the header.
  const etag = response.headers.get("etag")?.replaceAll('"', "");
  if (source.digest !== undefined && etag !== source.digest) {
    await response.body.cancel();
    throw archiveChanged();
  }
  const body = Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]);
  const archiveBytes = Number(response.headers.get("content-length"));
  await placeArchive(body, archiveBytes, { app, tmp, limits, log: events.log }, signal);
  return undefined;
}

/** Returns the labels that record a build on its image, for when nothing else is left of it. */
function toLabels(
  { buildId, serviceId }: JobRequest,
  { runtime, command }: BuildPlan,
  commit: string | undefined,
): Record<string, string> {
  return {
    [IMAGE_LABELS.build]: buildId,
    [IMAGE_LABELS.service]: serviceId,
    [IMAGE_LABELS.runtime]: runtime,
    ...(command !== undefined && { [IMAGE_LABELS.command]: command }),
    ...(commit !== undefined && { [IMAGE_LABELS.commit]: commit }),
  };
}
