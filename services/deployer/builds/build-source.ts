import type { ReleaseVariables } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { BuildFailure } from "../builder/build-failure.ts";
import type { BuildSource } from "../builder/port.ts";
import type { ReleaseRow } from "../releases/sql.ts";
import type { Secrets } from "../secrets.ts";

/**
 * Returns where the builder reads a deployment's source, with the current access token of a private repository.
 * Throws `BuildFailure` when the variable that should hold the token has no value or is not sensitive.
 */
export function toBuildSource(
  release: ReleaseRow,
  { data }: ReleaseVariables,
  secrets: Secrets,
): BuildSource {
  const { serviceId, archiveRef, archiveDigest: digest, source } = release;
  if (archiveRef || !source.git)
    return { kind: "archive", key: secrets.archiveKey(serviceId, archiveRef ?? "") ?? "", digest };
  const { tokenVariable, ...git } = source.git;
  if (tokenVariable === undefined) return { kind: "git", ...git };
  const token = data.find(({ name }) => name === tokenVariable);
  if (!token?.value)
    throw new BuildFailure(
      "source",
      "git_token_missing",
      `The git source expects its access token in the variable ${tokenVariable}, which is not set.`,
    );
  if (!token.sensitive)
    throw new BuildFailure(
      "source",
      "git_token_not_sensitive",
      `The variable ${tokenVariable} holds the git source's access token: make it sensitive.`,
    );
  return { kind: "git", ...git, token: token.value };
}
