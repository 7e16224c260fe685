import type { ServiceType } from "../runtime/port.ts";

/**
 * The port through which the deployer turns source into something its runtime can run. On a cluster a
 * build is one throw-away Job and its artifact an image; on one machine it is a folder.
 */

export type BuildStage =
  | "Waiting for builder"
  | "Fetching source"
  | "Detecting runtime"
  | "Building image"
  | "Pushing image";

/**
 * An uploaded archive in the object store: a gzipped tarball of the working directory. Where `digest` is given, other
 * bytes than those that `stat` gave it for are refused.
 */
export type ArchiveSource = { kind: "archive"; key: string; digest?: string };

/**
 * The newest commit of a branch, as `checkGitSource` lets it pass. `token` is a secret (`token` or
 * `user:token`): it reaches git through its environment alone, never arguments, files, logs or errors.
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
  /** Bytes of all unpacked files together, counted while writing. */
  unpackedBytes: number;
  /** Entries of the archive. */
  entries: number;
};

/** The limits of docs/deployments.md#unpacking. */
export const defaultBuildLimits: BuildLimits = { unpackedBytes: 2 * 1024 ** 3, entries: 200_000 };

export type BuildRequest = {
  /** One deployment, one build id: building again under the same id gives the same result. `[A-Za-z0-9_-]`. */
  buildId: string;
  serviceId: string;
  type: ServiceType;
  source: BuildSource;
  limits: BuildLimits;
  /** Path of the Dockerfile in the source, when the service names one. */
  dockerfile?: string;
  /** The service's own start command: then none needs to be found in the source. */
  command?: string;
  port: number;
  /** Past it the build fails with `build_timeout`. */
  timeoutMs: number;
  onStage(stage: BuildStage): void;
  /** Told the commit of a git source as soon as it is known; 40 or 64 hexadecimal digits. */
  onCommit?(commit: string): void;
  /** Takes one complete line of output, without its end. */
  log(line: string): void;
};

export type BuildResult = {
  /** What `Release.artifact` takes. */
  artifact: string;
  /** The start command that was found; it comes with the artifact, this copy is for people. */
  command?: string;
  runtime: BuildRuntime;
  /** What was built of a git source. */
  commit?: string;
};

export type BuildRuntime = "node" | "python" | "go" | "static" | "procfile" | "dockerfile" | "command";

export type Builder = {
  /**
   * `build` goes on with what another process began under the same id, and tells all of it anew: its stages,
   * commit and log. Without this, what another process began is to be discarded first.
   */
  readonly resumes?: true;
  /**
   * Builds, or goes on with, the build of this id. Throws `BuildFailure`; when `signal` aborts, its reason,
   * after everything the build started has ended and nothing of it is left; with `BuildHandedOver` as reason, a
   * build that can be resumed goes on.
   */
  build(request: BuildRequest, signal: AbortSignal): Promise<BuildResult>;
  /**
   * Ends a build that any process began under this id and removes all that came of it, a finished artifact
   * as well: for a deployment that will not be applied. Idempotent.
   */
  discard(buildId: string): Promise<void>;
  /** Removes what a build of this service made and nothing runs any more. Idempotent; all else is left alone. */
  removeArtifact(artifact: string, serviceId: string): Promise<void>;
  /** Removes what is kept between builds of a service, which has no build any more. Idempotent. */
  removeCaches(serviceId: string): Promise<void>;
};

/** Why a build's signal aborts when another process is to go on with it. */
export class BuildHandedOver extends Error {
  override name = "BuildHandedOver";
}

export type BuildFailureStage = "source" | "detect" | "build" | "push";

export type BuildFailureCode =
  | "archive_missing"
  | "archive_changed"
  | "archive_not_gzip"
  | "archive_not_tar"
  | "archive_truncated"
  | "archive_empty"
  | "archive_too_large"
  | "archive_too_many_entries"
  | "archive_absolute_path"
  | "archive_path_escapes"
  | "archive_link_escapes"
  | "archive_through_link"
  | "archive_special_file"
  | "archive_path_invalid"
  | "archive_path_conflict"
  | "git_repository_not_found"
  | "git_branch_not_found"
  | "git_context_dir_not_found"
  | "git_authentication_failed"
  | "git_token_missing"
  | "git_token_invalid"
  | "git_token_not_sensitive"
  | "git_unreachable"
  | "git_timeout"
  | "git_failed"
  | "dockerfile_needs_cluster"
  | "dockerfile_missing"
  | "runtime_not_detected"
  | "start_command_missing"
  | "source_invalid"
  | "toolchain_missing"
  | "install_failed"
  | "compile_failed"
  | "build_timeout"
  | "disk_full"
  | "dockerfile_failed"
  | "base_image_unavailable"
  | "out_of_memory"
  | "builder_unavailable";

/** The archive is not the one that the deployment took. */
export function archiveChanged(): BuildFailure {
  return new BuildFailure(
    "source",
    "archive_changed",
    "The archive was uploaded again after it was deployed; deploy it anew.",
  );
}

/** A build that ended; trying again gives the same. `message` is a sentence for users. */
export class BuildFailure extends Error {
  readonly stage: BuildFailureStage;
  readonly code: BuildFailureCode;
  constructor(stage: BuildFailureStage, code: BuildFailureCode, message: string) {
    super(message);
    this.name = "BuildFailure";
    this.stage = stage;
    this.code = code;
  }
}
