import { type Field, optionalText, text } from "../../../kit/config.ts";
import type { AddonType } from "../port.ts";

/** What managed addons on a cluster read from the environment. */
export const kubernetesAddonFields = {
  /** Images of new addons, as JSON: `{"postgres": "…", "redis": "…"}`. */
  addonImages: images("ADDON_IMAGES", { postgres: "postgres:18", redis: "redis:8" }),
  /** Storage class of their volumes; the cluster's default without one. */
  addonStorageClass: optionalText("ADDON_STORAGE_CLASS"),
  addonStorageSize: text("ADDON_STORAGE_SIZE", "1Gi"),
};

function images(name: string, fallback: Record<AddonType, string>): Field<Record<AddonType, string>> {
  return {
    name,
    parse: (given) => {
      if (given === undefined) return fallback;
      const wrong = () => new Error("must be a JSON object with images for postgres and redis");
      const known = Object.keys(fallback);
      const value: unknown = parsed(given, wrong);
      if (typeof value !== "object" || value === null || Array.isArray(value)) throw wrong();
      for (const [type, image] of Object.entries(value))
        if (!known.includes(type) || typeof image !== "string" || image === "") throw wrong();
      return { ...fallback, ...value };
    },
  };
}

function parsed(text: string, wrong: () => Error): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw wrong();
  }
}
