import type { Pool } from "../../../kit/postgres/db.ts";
import { setWarnings } from "../../deployments/transitions-sql.ts";
import type { ImageDigests } from "../../images/digests/resolve-digest.ts";
import type { RegistryLogins } from "../../images/registries/logins.ts";
import { imageArtifact, imageRef } from "../../terms/artifact.ts";
import { newNotice } from "../../terms/notice.ts";
import { RuntimeRefusal } from "../../terms/runtime-refusal.ts";
import * as sql from "../sql.ts";

export type PinDeps = {
  pool: Pool;
  imageDigests?: ImageDigests;
  /** Of accounts; omitted where they have none. */
  logins?: Pick<RegistryLogins, "authorizationFor">;
};

const GOES_ON = "Nodes pull what the tag stands for whenever a replica starts.";
const WAITS = "Images are deployed only by their digests here, so the registry is asked again.";

/**
 * Gives a queued deployment's image the digest that its tag has now, so that all its replicas, and rollbacks to it, run
 * the same (docs/images.md#digests). Returns the release with it, undefined when the deployment has ended meanwhile.
 * Throws a RuntimeRefusal for an image that does not exist, and another error where it is worth another try.
 */
export async function pinImage(
  { pool, imageDigests, logins }: PinDeps,
  row: sql.ReleaseRow,
): Promise<sql.ReleaseRow | undefined> {
  const image = imageRef(row.artifact ?? "");
  if (imageDigests === undefined || image === undefined || row.status !== "queued") return row;
  const found = await imageDigests.resolve(image, (host) => logins?.authorizationFor(row.accountId, host));
  if (found === undefined) return row;
  if ("missing" in found) throw new RuntimeRefusal("image_not_found", found.missing);
  const { required } = imageDigests;
  const warn = (...messages: string[]) => {
    const warnings = messages.map((message) => newNotice("apply", "image_not_pinned", message));
    return setWarnings(pool, row.deploymentId, "apply", warnings);
  };
  if ("unknown" in found) {
    await warn(`${found.unknown} ${required ? WAITS : GOES_ON}`);
    if (required) throw new Error(found.unknown);
    return row;
  }
  const artifact = imageArtifact(found.image);
  if ((await sql.pinImage(pool, row.deploymentId, artifact, found.image)) === 0) return undefined;
  if (required) await warn();
  return { ...row, artifact };
}
