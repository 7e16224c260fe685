import type { ServiceType } from "../terms/services.ts";
import type { SiteVariables } from "./site-variables.ts";

/**
 * The port through which the deployer turns source into something its runtime can run. On a cluster a build is one
 * throw-away Job, and the artifact an image; on one machine the artifact is a folder.
 */

export type BuildStage =
  | "Waiting for builder"
  | "Fetching source"
  | "Detecting runtime"
  | "Building image"
  | "Pushing image";

/**
 * An uploaded archive in the object store: a gzipped tarball of the working directory. With a `digest`, an object that
 * has another one is refused.
 */
export type ArchiveSource = { kind: "archive"; key: string; digest?: string };

/**
 * The newest commit of a branch, of a source that `checkGitSource` accepts. `token` is a secret (`token` or
 * `user:token`): it reaches git through its environment only, never through arguments, files, logs or errors.
 */
export type GitBuildSource = {
  kind: "git";
  repository: string;
  branch: string;
  contextDir?: string;
  token?: string;
};

export type BuildSource = ArchiveSource | GitBuildSource;

export type BuildLimits = {
  /** Bytes of all unpacked files together. */
  unpackedBytes: number;
  entries: number;
};

/** The limits of docs/deployments.md#unpacking. */
export const defaultBuildLimits: BuildLimits = { unpackedBytes: 2 * 1024 ** 3, entries: 200_000 };

/** The members of a service's configuration that decide how its source is built (docs/deployments.md#builds). */
export type BuildSettings = {
  /** The folder in the source that is built, in place of its root. */
  rootDirectory?: string;
  /** The path of the Dockerfile in that folder. */
  dockerfile?: string;
  /** Replaces the detected command that installs dependencies. */
  installCommand?: string;
  /** Replaces the detected command that builds. */
  buildCommand?: string;
  /** The folder that the build fills with a static site. */
  outputDirectory?: string;
  /** The start command, which replaces the source's. */
  command?: string;
  /** `buildpacks` leaves the source to Cloud Native Buildpacks, whatever else could build it; `auto` by default. */
  builder?: string;
};

/** Returns these members of something that has more. */
export function buildSettings(of: BuildSettings): BuildSettings {
  const { rootDirectory, dockerfile, installCommand, buildCommand, outputDirectory, command, builder } = of;
  return { rootDirectory, dockerfile, installCommand, buildCommand, outputDirectory, command, builder };
}

export type BuildRequest = BuildSettings & {
  /** Building again under the same id returns the same result. `[A-Za-z0-9_-]`. */
  buildId: string;
  accountId: string;
  serviceId: string;
  type: ServiceType;
  source: BuildSource;
  limits: BuildLimits;
  port: number;
  /** Not secret: the artifact may contain their values. None unless given. */
  site?: SiteVariables;
  /** After this time the build fails with `build_timeout`. */
  timeoutMs: number;
  onStage(stage: BuildStage): void;
  /** Called with the commit of a git source as soon as it is known: 40 or 64 hexadecimal digits. */
  onCommit?(commit: string): void;
  /** Called with each complete line of output, without its end. */
  log(line: string): void;
};

export type BuildResult = {
  /** The value for `Release.artifact`. */
  artifact: string;
  /** The start command; the artifact contains it, this copy is for people. */
  command?: string;
  runtime: BuildRuntime;
  /** The commit that was built from a git source. */
  commit?: string;
  /** The Cloud Native Buildpacks that took part, as `id@version`; only of runtime `buildpacks`. */
  buildpacks?: string[];
};

export type BuildRuntime =
  | "node"
  | "bun"
  | "deno"
  | "python"
  | "go"
  | "static"
  | "procfile"
  | "dockerfile"
  | "command"
  | "buildpacks";

export type Builder = {
  /**
   * Whether `build` resumes a build that another process began under the same id, and reports its stages, commit and
   * log from the beginning. Without this, discard such a build first.
   */
  readonly resumes?: true;
  /**
   * Begins or resumes the build of this id. Throws `BuildFailure`. When `signal` aborts, throws its reason once
   * everything that the build started has ended and nothing of it is left; with `BuildHandedOver` as the reason, a
   * build that can be resumed keeps running.
   */
  build(request: BuildRequest, signal: AbortSignal): Promise<BuildResult>;
  /**
   * Ends a build that any process began under this id and removes everything it made, a finished artifact included: for
   * a deployment that will not be applied. Idempotent.
   */
  discard(build: Pick<BuildRequest, "buildId" | "accountId">): Promise<void>;
  /** Removes an artifact that no release runs, if a build of this service made it; leaves any other. Idempotent. */
  removeArtifact(artifact: string, serviceId: string): Promise<void>;
  /**
   * Removes what is kept between the builds of a service. A build that is under way installs what it does not find any
   * more, and may keep that. Idempotent.
   */
  removeCaches(serviceId: string): Promise<void>;
};

/** The reason with which a build's signal aborts when another process will resume it. */
export class BuildHandedOver extends Error {
  override name = "BuildHandedOver";
}
