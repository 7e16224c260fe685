import { type Field, integer, isTexts, json, optionalText, text } from "../../../kit/process/config.ts";
import type { AddonType } from "../port.ts";

/** The environment variables of managed addons on a cluster. */
export const kubernetesAddonFields = {
  /** Images of new addons, as JSON: `{"postgres": "…", "redis": "…"}`. */
  addonImages: images("ADDON_IMAGES", { postgres: "postgres:18", redis: "redis:8" }),
  /** Storage class of their volumes; the cluster's default unless given. */
  addonStorageClass: optionalText("ADDON_STORAGE_CLASS"),
  addonStorageSize: text("ADDON_STORAGE_SIZE", "1Gi"),
  addonUser: user("ADDON_USER"),
};

/** The number of a user that is not root, or `any` where the cluster gives each namespace users of its own. */
function user(name: string): Field<number | "any"> {
  const number = integer(name, { min: 1, fallback: 999 });
  return { name, parse: (given) => (given === "any" ? given : number.parse(given)) };
}

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
