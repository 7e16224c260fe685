import { type Db, type Pool, transaction } from "../../kit/postgres/db.ts";
import { invalid } from "../../kit/rpc/errors.ts";
import { checkImage } from "../catalog/service-config.ts";
import { imageRef, RuntimeRefusal } from "../runtime/port.ts";
import { type ImageReference, parseImageReference } from "./image-reference.ts";
import { artifactInUse, deleteBuiltImage, holdBuiltImage, lockBuiltImage } from "./sql.ts";

/** Whether a reference names what builds of this platform push, whoever's. */
export type IsBuiltImage = (image: ImageReference) => boolean;

export type AccountImages = ReturnType<typeof accountImages>;

const SENTENCE =
  "The image is in the platform's own registry, where an account can use only what it built and still keeps: " +
  "name it with its digest, as a deployment's image shows it.";

/** Keeps accounts from each other's images in the platform's own registry (docs/images.md#ownership). */
export function accountImages(isBuilt: IsBuiltImage) {
  /** What is allowed is kept until the transaction ends. */
  async function isAllowed(db: Db, accountId: string, image: ImageReference): Promise<boolean> {
    if (!isBuilt(image)) return true;
    return image.digest !== undefined && holdBuiltImage(db, accountId, image.digest);
  }

  return {
    /**
     * 422 at `path`: invalid_image for what is no reference, image_not_allowed for an image of the platform's
     * registry that is not the account's.
     */
    async require(db: Db, accountId: string, path: string, image?: string | null): Promise<void> {
      if (image && !(await isAllowed(db, accountId, checkImage(path, image))))
        throw invalid(path, "image_not_allowed", SENTENCE);
    },

    /** The same for what a runtime is about to be told, which an older version may have accepted. */
    async requireToRun(db: Db, accountId: string, artifact: string | undefined): Promise<void> {
      const image = imageRef(artifact ?? "");
      if (image === undefined) return;
      const found = parseImageReference(image);
      if ("problem" in found) throw new RuntimeRefusal("image_not_allowed", found.problem);
      if (!(await isAllowed(db, accountId, found))) throw new RuntimeRefusal("image_not_allowed", SENTENCE);
    },
  };
}

/**
 * Gives up what a deployment ran, or without one what the whole service did. Gives whose build made it when it
 * can be removed now; nothing when another deployment of the account runs or retains it.
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
