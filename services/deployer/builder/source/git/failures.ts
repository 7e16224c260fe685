import { maskSecrets } from "../../../shared/mask-secrets.ts";
import { toMebibytes } from "../../../shared/mebibytes.ts";
import { BuildFailure, sourceFailure } from "../../build-failure.ts";
import type { BuildLimits, GitBuildSource } from "../../port.ts";

import { parseToken } from "./environment.ts";

const NOT_FOUND_OR_PRIVATE =
  "Check its URL. If it is private, put an access token into a sensitive variable and name that in the source's tokenVariable.";

/** Returns the failure for what git printed while it fetched; its message does not contain the token. */
export function toFetchFailure(
  lines: string[],
  { repository, branch, token }: GitBuildSource,
  limits: BuildLimits,
): BuildFailure {
  const output = lines.join("\n");
  const { host } = new URL(repository);
  if (/couldn't find remote ref/.test(output))
    return sourceFailure("git_branch_not_found", `The repository ${repository} has no branch “${branch}”.`);
  if (/died of signal (25|31)\b|File too large/i.test(output))
    return sourceFailure(
      "archive_too_large",
      `The repository is larger than ${toMebibytes(limits.unpackedBytes)}.`,
    );
  if (/could not read (Username|Password)|Authentication failed|returned error: 40[13]\b/.test(output))
    return sourceFailure(
      "git_authentication_failed",
      token === undefined
        ? `The repository ${repository} does not exist or is private. ${NOT_FOUND_OR_PRIVATE}`
        : `${host} refused the token for ${repository}: it is wrong, has expired or may not read this repository.`,
    );
  const notFound = lines.some(
    (line) => line.startsWith("fatal: repository '") && line.includes("' not found"),
  );
  if (notFound || /returned error: 404\b|not valid: is this a git repository/.test(output))
    return sourceFailure(
      "git_repository_not_found",
      `There is no repository at ${repository}. ${NOT_FOUND_OR_PRIVATE}`,
    );
  if (/timed out|Operation too slow|Timeout was reached/i.test(output))
    return sourceFailure("git_timeout", `${host} did not answer in time.`);
  const reason = maskToken(lastError(lines), token);
  if (
    /Could not resolve|Failed to connect|Couldn't connect|Connection re|SSL|certificate|returned error: 5\d\d/i.test(
      output,
    )
  )
    return sourceFailure("git_unreachable", `The repository cannot be reached: ${reason}`);
  if (/No space left|Disk quota/i.test(output))
    return sourceFailure("disk_full", "There is no room left on the disk to fetch the repository.");
  return sourceFailure("git_failed", `git could not fetch the repository: ${reason}`);
}

/** Rewords a failure of unpacking: its checks speak of an archive, but the user has a repository. */
export function toRepositoryFailure({ stage, code, message }: BuildFailure): BuildFailure {
  if (code === "archive_truncated" || code === "archive_not_tar") return repositoryUnreadable();
  if (code === "archive_empty")
    return sourceFailure("archive_empty", "The repository has no files in this folder.");
  return new BuildFailure(stage, code, message.replace(/\b(the) archive\b/gi, "$1 repository"));
}

export function repositoryUnreadable(): BuildFailure {
  return sourceFailure("git_failed", "git could not read the repository that it fetched.");
}

/** Returns git's own last error; messages of the server come before it, marked as `remote:`. */
export function lastError(lines: string[]): string {
  const own = lines.filter((line) => /^(fatal|error): /.test(line));
  const line = own.at(-1)?.replace(/^(fatal|error): /, "") ?? "it gave no reason";
  return `${line.slice(0, 500).replace(/\.$/, "")}.`;
}

function maskToken(text: string, token: string | undefined): string {
  if (token === undefined) return text;
  const { user, password } = parseToken(token);
  return maskSecrets([token, password, Buffer.from(`${user}:${password}`).toString("base64")])(text);
}
