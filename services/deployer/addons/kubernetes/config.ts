import type { V1NetworkPolicyEgressRule } from "@kubernetes/client-node";
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
import type { Archive } from "./cnpg/manifests.ts";

/** Which engine new PostgreSQL addons have; `cnpg`: CloudNativePG, `auto`: that where the cluster has it. */
export const POSTGRES_ENGINES = ["statefulset", "cnpg", "auto"] as const;
export type PostgresEngine = (typeof POSTGRES_ENGINES)[number];

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
  addonPostgresEngine: choice("ADDON_POSTGRES_ENGINE", POSTGRES_ENGINES, "statefulset"),
  /** The namespace of CloudNativePG's operator. */
  addonOperatorNamespace: text("ADDON_OPERATOR_NAMESPACE", "cnpg-system"),
  /** What its instances reach besides DNS, as NetworkPolicies name it: the cluster's API, to learn who is the primary. */
  addonInstancesTo: json<V1NetworkPolicyEgressRule[]>(
    "ADDON_INSTANCES_TO",
    [],
    (value) => Array.isArray(value) && value.every(isObject),
    "a list of egress rules",
  ),
  /** An S3 bucket for archives of PostgreSQL addons on CloudNativePG, as JSON; none unless given. */
  addonArchive: json<Pick<Archive, "endpoint" | "bucket" | "region" | "days" | "to"> | undefined>(
    "ADDON_ARCHIVE",
    undefined,
    isArchive,
    "an object with endpoint, bucket, region, days and to",
  ),
  addonArchiveAccessKey: text("ADDON_ARCHIVE_ACCESS_KEY", ""),
  addonArchiveSecretKey: text("ADDON_ARCHIVE_SECRET_KEY", ""),
  addonUser: user("ADDON_USER"),
  /** Has PgBouncer, for poolers of PostgreSQL addons; there are none without it. */
  addonPoolerImage: optionalText("ADDON_POOLER_IMAGE"),
  /** The platform's own image, whose program carries backups to the object store; there are none without it. */
  addonCopyImage: optionalText("ADDON_COPY_IMAGE"),
};

/** The number of a user that is not root, or `any` where the cluster gives each namespace users of its own. */
function user(name: string): Field<number | "any"> {
  const number = integer(name, { min: 1, fallback: 999 });
  return { name, parse: (given) => (given === "any" ? given : number.parse(given)) };
}

function isArchive(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { endpoint, bucket, region, days, to } = value as Record<string, unknown>;
  const areTexts = [endpoint, bucket, region].every((one) => typeof one === "string" && one !== "");
  return areTexts && Number.isInteger(days) && Number(days) > 0 && Array.isArray(to) && to.every(isObject);
}

/** Returns where archives are, with the login to it. */
export function archiveOf(config: ConfigOf<typeof kubernetesAddonFields>): Archive | undefined {
  const { addonArchive, addonArchiveAccessKey: accessKey, addonArchiveSecretKey: secretKey } = config;
  return addonArchive && { ...addonArchive, accessKey, secretKey };
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
