import { parseImageReference } from "../../images/image-reference.ts";
import type { AddonType } from "../../terms/services.ts";
import type { AddonChoice } from "../port.ts";

// Which versions of a server there are, told from the tags of its images.

/** An image as its tag describes it: `version` are its numbers, `variant` what follows them. */
export type ImageRelease = { image: string; program: string; version: number[]; variant: string };

/** How many numbers of a version say what reads the data of what. */
export const LINE: Record<AddonType, number> = { postgres: 1, redis: 2 };

const NO_VERSIONS =
  "The tags of the installation's images do not say which versions they have, so that addons have that of its image.";

/** Returns undefined for an image whose tag does not begin with a version. */
export function toRelease(image: string): ImageRelease | undefined {
  const found = parseImageReference(image);
  if ("problem" in found) return undefined;
  const [, version, variant = ""] = /^v?(\d+(?:\.\d+)*)(-.+)?$/.exec(found.tag ?? "") ?? [];
  const program = found.repository.split("/").at(-1)!;
  return version ? { image, program, version: version.split(".").map(Number), variant } : undefined;
}

/** Compares versions by their first number that differs. */
export function compareVersions(one: number[], other: number[]): number {
  const at = one.findIndex((part, index) => part !== other[index]);
  return at < 0 ? 0 : one[at]! - (other[at] ?? 0);
}

/** Returns the image of each version that addons can be made with, the newest version first. */
export function imagesByVersion(type: AddonType, images: string[]): Map<string, string> {
  const releases = images.flatMap((image) => toRelease(image) ?? []);
  const newest = releases.toSorted((one, other) => compareVersions(other.version, one.version));
  const found = new Map<string, string>();
  for (const { image, version } of newest) {
    const line = version.slice(0, LINE[type]).join(".");
    if (!found.has(line)) found.set(line, image);
  }
  return found;
}

/** Returns which versions users can choose from. */
export function choiceOfVersions(type: AddonType, images: string[]): AddonChoice {
  const versions = [...imagesByVersion(type, images).keys()];
  return versions.length > 0 ? { versions } : { versions, versionsReason: NO_VERSIONS };
}

/** Returns the image for a new server of this version, or of the installation's: the first one. */
export function imageFor(type: AddonType, version: string | undefined, images: string[]): string {
  return (version !== undefined && imagesByVersion(type, images).get(version)) || images[0]!;
}

/** Returns the version that the tag of an image says, such as `18.1`. */
export const versionOf = (image: string | undefined) => image && toRelease(image)?.version.join(".");

/** Of new addons, and those of earlier versions that users may choose. */
export type AddonImages = {
  images: Record<AddonType, string>;
  earlierImages?: Partial<Record<AddonType, string[]>>;
};

/** Returns the images that an addon can be made with; the first one unless its version says another. */
export function imagesOf(type: AddonType, { images, earlierImages = {} }: AddonImages): string[] {
  return [images[type], ...(earlierImages[type] ?? [])];
}
