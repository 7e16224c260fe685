import { type Field, isTexts, json, optionalText, text } from "../../../kit/process/config.ts";
import type { AddonType } from "../port.ts";

/** The environment variables of managed addons on a cluster. */
export const kubernetesAddonFields = {
  /** Images of new addons, as JSON: `{"postgres": "…", "redis": "…"}`. */
  addonImages: images("ADDON_IMAGES", { postgres: "postgres:18", redis: "redis:8" }),
  /** Storage class of their volumes; the cluster's default unless given. */
  addonStorageClass: optionalText("ADDON_STORAGE_CLASS"),
  addonStorageSize: text("ADDON_STORAGE_SIZE", "1Gi"),
};

function images(name: string, fallback: Record<AddonType, string>): Field<Record<AddonType, string>> {
  const isImages = (value: unknown) =>
    isTexts(value) && Object.entries(value).every(([type, image]) => type in fallback && image !== "");
  const given = json<Partial<typeof fallback>>(
    name,
    {},
    isImages,
    "an object with images for postgres and redis",
  );
  return { name, parse: (text) => ({ ...fallback, ...given.parse(text) }) };
}
