import { type Db, type Pool, transaction } from "../../kit/postgres/db.ts";
import { invalid } from "../../kit/rpc/refusals.ts";
import { imageRef } from "../terms/artifact.ts";
import { RuntimeRefusal } from "../terms/runtime-refusal.ts";
import { type AllowedRegistries, isInAllowed } from "./allowed-registries.ts";
import { findAppRepository } from "./app-repositories.ts";
import { checkImage, type ImageReference, parseImageReference } from "./image-reference.ts";
import { artifactInUse, deleteBuiltImage, holdBuiltImage, lockBuiltImage } from "./sql.ts";

/** Whether a reference names an image that builds of this platform push, of any account. */
export type IsBuiltImage = (image: ImageReference) => boolean;

export type AccountImages = ReturnType<typeof accountImages>;

const NOT_ALLOWED =
  "The image is in the platform's own registry, where an account can use only images that it built and still " +
  "retains. Name it with its digest, as in a deployment's image.";

/**
 * Prevents accounts from using each other's images in the platform's own registry (docs/images.md#ownership), and images
 * of registries that the operator does not allow.
 */
export function accountImages(isBuilt: IsBuiltImage, allowed: AllowedRegistries) {
  /** An image that is allowed cannot be removed until the transaction ends. */
  async function isAllowed(db: Db, accountId: string, image: ImageReference): Promise<boolean> {
    if (!isBuilt(image)) return true;
    const { accountId: owner = accountId } = findAppRepository(image.repository) ?? {};
    return owner === accountId && image.digest !== undefined && holdBuiltImage(db, accountId, image.digest);
  }

  return {
    /**
     * Throws 422 at a request member: invalid_image for a malformed reference, image_not_allowed for another
     * account's image, registry_not_allowed for one of elsewhere.
     */
    async require(db: Db, accountId: string, member: string, image?: string | null): Promise<void> {
      if (!image) return;
      const found = checkImage(member, image);
      if (!(await isAllowed(db, accountId, found))) throw invalid(member, "image_not_allowed", NOT_ALLOWED);
      if (!isBuilt(found) && !isInAllowed(allowed, found))
        throw invalid(
          member,
          "registry_not_allowed",
          `Images may only come from ${allowed.join(", ")}. Use one of these, or deploy the source.`,
        );
    },

    /**
     * Throws a RuntimeRefusal for a malformed reference or another account's image in an artifact about to be applied,
     * which an older release of the deployer may have accepted. What was accepted from a registry stays.
     */
    async requireToRun(db: Db, accountId: string, artifact: string | undefined): Promise<void> {
      const image = imageRef(artifact ?? "");
      if (image === undefined) return;
      const found = parseImageReference(image);
      if ("problem" in found) throw new RuntimeRefusal("image_not_allowed", found.problem);
      if (!(await isAllowed(db, accountId, found)))
        throw new RuntimeRefusal("image_not_allowed", NOT_ALLOWED);
    },
  };
}

/**
 * Releases an artifact that a deployment ran, or without one that the whole service ran. Returns the service whose
 * build made it when it can be removed now, undefined while another deployment of the account runs or retains it.
 */
export function releaseArtifact(
  pool: Pool,
  serviceId: string,
  artifact: string,
  deploymentId: string | undefined,
): Promise<string | undefined> {
  return transaction(pool, async (tx) => {
    const built = await lockBuiltImage(tx, serviceId, artifact);
    if (await artifactInUse(tx, serviceId, artifact, deploymentId)) return undefined;
    await deleteBuiltImage(tx, serviceId, artifact);
    return built?.serviceId ?? serviceId;
  });
}
