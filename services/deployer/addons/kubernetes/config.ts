import {
  type ConfigOf,
  choice,
  type Field,
  integer,
  isObject,
  isTexts,
  json,
  optionalText,
  text,
} from "../../../kit/process/config.ts";
import { ADDON_TYPES, type AddonType } from "../../terms/services.ts";

/** The environment variables of managed addons on a cluster. */
export const kubernetesAddonFields = {
  /** Images of new addons, as JSON: `{"postgres": "…", "redis": "…"}`. */
  addonImages: images("ADDON_IMAGES", { postgres: "postgres:18", redis: "redis:8" }),
  /** Images for servers of earlier versions, as JSON: `{"postgres": ["…"], "redis": ["…"]}`. */
  addonEarlierImages: json(
    "ADDON_EARLIER_IMAGES",
    {} as Partial<Record<AddonType, string[]>>,
    isImageLists,
    "an object with lists of images for postgres and redis",
  ),
  /** Whether running servers move to newer patch releases among the images. */
  addonPatches: choice("ADDON_PATCHES", ["on", "off"] as const, "on"),
  /** Storage class of their volumes; the cluster's default unless given. */
  addonStorageClass: optionalText("ADDON_STORAGE_CLASS"),
  addonStorageSize: text("ADDON_STORAGE_SIZE", "1Gi"),
  /** Whether the volumes of running servers grow to that size, too, where the storage class allows it. */
  addonStorageGrows: choice("ADDON_STORAGE_GROWS", ["on", "off"] as const, "off"),
  addonUser: user("ADDON_USER"),
};

/** The number of a user that is not root, or `any` where the cluster gives each namespace users of its own. */
function user(name: string): Field<number | "any"> {
  const number = integer(name, { min: 1, fallback: 999 });
  return { name, parse: (given) => (given === "any" ? given : number.parse(given)) };
}

function isImageLists(value: unknown): boolean {
  const isList = ([type, list]: [string, unknown]) =>
    ADDON_TYPES.some((one) => one === type) &&
    Array.isArray(list) &&
    list.every((one) => typeof one === "string" && one !== "");
  return isObject(value) && Object.entries(value).every(isList);
}

/** Returns the images that running servers may move to. */
export function patchImages(config: ConfigOf<typeof kubernetesAddonFields>): Record<AddonType, string[]> {
  const { addonPatches, addonImages, addonEarlierImages } = config;
  const of = (type: AddonType) =>
    addonPatches === "on" ? [addonImages[type], ...(addonEarlierImages[type] ?? [])] : [];
  return { postgres: of("postgres"), redis: of("redis") };
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
