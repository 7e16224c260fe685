import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { withExec } from "../../../shared/exec-command.ts";
import { BuildFailure, diskFull } from "../../build-failure.ts";
import { type BuildPlan, failDetection } from "../../detect/build-plan.ts";
import type { BuildahResult } from "../image/buildah.ts";
import { certificateMounts } from "../image/certificates.ts";
import { SOURCE_FOLDER } from "../image/dockerfile.ts";
import { baseImageUnavailable } from "../image/failures.ts";
import type { ImageBuild, ImageName } from "../image/image-build.ts";
import { isNamed, nonRootUser } from "../image/image-user.ts";
import { IMAGE_LABELS } from "../job-request.ts";
import {
  APP_LABELS,
  BUILDER_LABELS,
  type BuilderImage,
  findStart,
  readBuilderImage,
  readBuiltApp,
} from "./builder-image.ts";
import { openCache } from "./cache-image.ts";
import { completeLayout, layoutPath } from "./layout.ts";

export type BuiltByBuildpacks = {
  buildpacks: string[];
  command?: string;
  /** Keeps what the buildpacks cached for the service's next build. */
  store: () => Promise<void>;
};

/** Where the lifecycle finds what the platform gives it; all but the source's folder are empty at first. */
const MOUNTS = {
  app: "/workspace",
  layers: "/layers",
  cache: "/berth/cache",
  layout: "/berth/layout",
  platform: "/platform",
};

const RUN_IMAGE = "berth.local/run:latest";
const APP_IMAGE = "berth.local/app:latest";

/**
 * Builds a source by the buildpacks of the operator's builder image, as its own user in a container without credentials:
 * the run image goes in as files and the app's comes out as files, and this process alone talks to the registry.
 */
export async function buildFromBuildpacks(
  build: ImageBuild,
  { hint = "" }: BuildPlan,
  image: ImageName,
): Promise<BuiltByBuildpacks> {
  const { request, work, variables, buildah, events, signal } = build;
  const given = request.buildpacks!;
  const builderId = await pull(build, given.builder);
  const builder = readBuilderImage(
    await buildah.labelsOf(builderId, BUILDER_LABELS, signal),
    await buildah.environmentOf(builderId, signal),
  );
  if ("problem" in builder) throw unusable(`The builder image ${given.builder} ${builder.problem}.`);
  const runImage = given.runImage ?? builder.runImage;
  if (runImage === undefined)
    throw unusable(`The builder image ${given.builder} names no image for apps to run in: set one.`);
  events.log(`Building with the buildpacks of ${given.builder}; the app runs in ${runImage}.`);

  const folder = join(work, "buildpacks");
  const folders = {
    app: join(build.context, SOURCE_FOLDER),
    layers: join(folder, "layers"),
    cache: join(folder, "cache"),
    layout: join(folder, "layout"),
    platform: join(folder, "platform"),
  };
  for (const one of Object.values(folders)) mkdirSync(one, { recursive: true });
  writePlatform(folders.platform, variables);
  const run = layoutPath(folders.layout, RUN_IMAGE);
  mkdirSync(run, { recursive: true });
  await buildah.saveAsFiles(await pull(build, runImage), run, signal);
  const cache = await openCache(build, { builderId, folder: folders.cache });

  const own = [folders.app, folders.layers, folders.cache, folders.layout];
  await buildah.changeOwner(own, builder.user, signal);
  const result = await buildah.runIn(
    builderId,
    {
      user: builder.user,
      env: lifecycleEnvironment(builder),
      mounts: [
        ...Object.entries(folders).map(([name, from]) => ({
          from,
          to: MOUNTS[name as keyof typeof MOUNTS],
          writable: name !== "platform",
        })),
        ...certificateMounts(variables),
      ],
      command: ["/cnb/lifecycle/creator", `-run-image=${RUN_IMAGE}`, APP_IMAGE],
    },
    events.log,
    signal,
  );
  await buildah.changeOwner(own, "0:0", signal);
  if (result.code !== 0) throw toLifecycleFailure(result, builder, hint);

  const app = layoutPath(folders.layout, APP_IMAGE);
  completeLayout(app, run);
  const built = await buildah.loadFiles(app, signal);
  const { command, buildpacks } = await nameImage(build, built, image);
  return { buildpacks, ...(command !== undefined && { command }), store: cache.store };
}

async function pull({ buildah, events, signal }: ImageBuild, image: string): Promise<string> {
  const { code, lines, error } = await buildah.pull(image, signal);
  if (code === 0) return lines.at(-1) ?? "";
  events.log(`The image ${image} cannot be pulled: ${error}`);
  throw baseImageUnavailable(image);
}

/** Gives the buildpacks the variables of every build: in files, so that no command line shows them. */
function writePlatform(folder: string, variables: Record<string, string>): void {
  const env = join(folder, "env");
  mkdirSync(env);
  for (const [name, value] of Object.entries(variables)) writeFileSync(join(env, name), value);
  for (const one of [folder, env]) chmodSync(one, 0o755);
}

function lifecycleEnvironment({ platformApi, user }: BuilderImage): Record<string, string> {
  const [uid = "", gid = ""] = user.split(":");
  return {
    CNB_PLATFORM_API: platformApi,
    // Of version 0.14 at most, images as files count as experimental.
    CNB_EXPERIMENTAL_MODE: "quiet",
    CNB_USE_LAYOUT: "true",
    CNB_LAYOUT_DIR: MOUNTS.layout,
    CNB_APP_DIR: MOUNTS.app,
    CNB_LAYERS_DIR: MOUNTS.layers,
    CNB_CACHE_DIR: MOUNTS.cache,
    CNB_PLATFORM_DIR: MOUNTS.platform,
    CNB_USER_ID: uid,
    CNB_GROUP_ID: gid,
    CNB_NO_COLOR: "true",
  };
}

/** The lifecycle's exit codes that are faults of the source. */
const NONE_MATCHED = [20, 21];
const BUILDPACK_FAILED = 51;

function toLifecycleFailure(
  { code, error, lines }: BuildahResult,
  { buildpacks }: BuilderImage,
  hint: string,
): Error {
  const exit = /exit status (\d+)$/.exec(error)?.[1];
  const status = Number(exit ?? code);
  if (NONE_MATCHED.includes(status))
    return new BuildFailure(
      "detect",
      "runtime_not_detected",
      `None of the builder's buildpacks recognises the source. Tried: ${buildpacks.join(", ") || "none"}. The build log says what each looked for.${hint}`,
    );
  if (status === BUILDPACK_FAILED)
    return new BuildFailure("build", "compile_failed", "A buildpack failed; the build log says why.");
  if (status === 137 || /signal: killed/.test(error))
    return new BuildFailure(
      "build",
      "out_of_memory",
      "The buildpacks were killed because they needed more memory than a builder has.",
    );
  if (lines.some((line) => /\bENOSPC\b|no space left on device/i.test(line))) return diskFull();
  if (exit === undefined) return new Error(`the lifecycle of the buildpacks did not run: ${error}`);
  // Nothing that it does needs more than the source and the builder image: it would fail again.
  return new BuildFailure(
    "build",
    "compile_failed",
    `The lifecycle of the buildpacks ended with exit code ${status}; the build log says why.`,
  );
}

/** Gives the built image its name, its labels, a user that a cluster takes, and the service's start. */
async function nameImage(build: ImageBuild, built: string, image: ImageName) {
  const { request, work, buildah, events, signal } = build;
  const labels = await buildah.labelsOf(built, APP_LABELS, signal);
  const app = readBuiltApp(labels);
  events.log(`Built by the buildpacks ${app.buildpacks.join(", ")}.`);
  const command = request.command === undefined ? undefined : withExec(request.command);
  const entrypoint = await buildah.entrypointOf(built, signal);
  const start = findStart(app, { type: request.type, command, entrypoint });
  if (start === undefined)
    failDetection(
      "start_command_missing",
      `The buildpacks made no process “${request.type}” (theirs: ${[...app.processes.keys()].join(", ") || "none"}). Add a Procfile with a line “${request.type}: <command>”, or set the service's start command.`,
    );
  const shown = request.command ?? start.command;
  image.labels[IMAGE_LABELS.buildpacks] = JSON.stringify(app.buildpacks);
  if (shown !== undefined) image.labels[IMAGE_LABELS.command] = shown;
  const user = await buildah.userOf(built, signal);
  const numeric = nonRootUser(user, isNamed(user) ? await buildah.readPasswd(built, signal) : "");
  const dockerfile = join(work, "Dockerfile");
  const lines = [
    `FROM ${built}`,
    `USER ${numeric}`,
    `ENV PORT=${request.port}`,
    `EXPOSE ${request.port}`,
    `ENTRYPOINT ${JSON.stringify(start.entrypoint)}`,
    `CMD ${JSON.stringify(start.args)}`,
  ];
  writeFileSync(dockerfile, `${lines.join("\n")}\n`);
  const options = {
    ...image,
    dockerfile,
    context: join(work, "buildpacks/platform"),
    variables: {},
    mounts: [],
    pulled: true,
  };
  const result = await buildah.build(options, () => {}, signal);
  if (result.code !== 0) throw new Error(`the image could not be named: ${result.error}`);
  return { command: shown, buildpacks: app.buildpacks };
}

/** A fault of the operator's choice, which no retry mends. */
function unusable(message: string): BuildFailure {
  return new BuildFailure("build", "builder_unavailable", message);
}
