import { BuildFailure, type BuildSource } from "../builder/port.ts";
import type { ReleaseRow } from "../releases/sql.ts";
import type { ResolvedVariables } from "../releases/variables-client.ts";
import type { Secrets } from "../secrets.ts";

/**
 * Where the builder takes a deployment's source from, with the token of now for a private repository.
 * Throws `BuildFailure` when the variable that should hold the token does not, or shows it to readers.
 */
export function sourceOf(release: ReleaseRow, resolved: ResolvedVariables, secrets: Secrets): BuildSource {
  const { serviceId, archiveRef, archiveDigest: digest, source } = release;
  if (archiveRef || !source.git)
    return { kind: "archive", key: secrets.archiveKey(serviceId, archiveRef ?? "") ?? "", digest };
  const { tokenVariable, ...git } = source.git;
  if (tokenVariable === undefined) return { kind: "git", ...git };
  const token = resolved.values[tokenVariable];
  if (!token)
    throw new BuildFailure(
      "source",
      "git_token_missing",
      `The source's token is to be in the variable ${tokenVariable}, and the service has no value for it.`,
    );
  if (!resolved.sensitive.includes(tokenVariable))
    throw new BuildFailure(
      "source",
      "git_token_not_sensitive",
      `The variable ${tokenVariable} holds the source's token and is not sensitive: make it so.`,
    );
  return { kind: "git", ...git, token };
}
