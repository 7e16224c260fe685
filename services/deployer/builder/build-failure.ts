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
  | "buildpacks_need_cluster"
  | "buildpacks_not_enabled"
  | "root_directory_missing"
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

/** A build that failed by a fault of its source: the same build fails again. `message` is a sentence for users. */
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

export function sourceFailure(code: BuildFailureCode, message: string): BuildFailure {
  return new BuildFailure("source", code, message);
}

export function archiveMissing(): BuildFailure {
  return sourceFailure("archive_missing", "The uploaded archive no longer exists; upload it again.");
}

/** The object store holds other bytes than the deployment accepted. */
export function archiveChanged(): BuildFailure {
  return sourceFailure(
    "archive_changed",
    "The archive was uploaded again after it was deployed; deploy it again.",
  );
}

export function diskFull(): BuildFailure {
  return new BuildFailure("build", "disk_full", "There is no room left on the disk to build.");
}

/** What managers of packages print where a lock file was not written again after the dependencies changed. */
const OUTDATED_LOCK_FILE =
  /can only install packages when your package\.json and|ERR_PNPM_OUTDATED_LOCKFILE|lockfile needs to be updated|lockfile would have been modified|lockfile had changes, but lockfile is frozen|Your Pipfile\.lock/;

/** Whether a line that an install printed says that its lock file is out of date. */
export function saysOutdatedLock(line: string): boolean {
  return OUTDATED_LOCK_FILE.test(line);
}

export function lockFileOutdated(): BuildFailure {
  return new BuildFailure(
    "build",
    "install_failed",
    "The lock file is out of date: the dependencies were changed without it. Install them where you develop, as with “npm install”, and deploy the lock file that this writes.",
  );
}

/** Returns the `BuildFailure` for an error of a full disk, and every other error as it is. */
export function toBuildFailure(error: unknown): unknown {
  return (error as NodeJS.ErrnoException).code === "ENOSPC" ? diskFull() : error;
}
