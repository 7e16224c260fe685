import type { V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import { parseImageReference } from "../../images/image-reference.ts";
import type { AddonType } from "../../terms/services.ts";
import { MOVED } from "./server/annotations.ts";
import { addonStatus } from "./server/pod-status.ts";

// Servers follow patch releases: one after another, each only once the one before is ready.

/** How many numbers of a version say what reads the data of what. */
const LINE: Record<AddonType, number> = { postgres: 1, redis: 2 };

/** Returns the image of a newer patch release for a server that has this one. */
export type NewerPatch = (type: AddonType, image: string) => string | undefined;

export type Server = { set: V1StatefulSet; pod?: V1Pod };

/**
 * Finds newer patch releases among these images: of the same program and variant, of the same line of versions, with as
 * many numbers in their tags. What cannot be compared is left as it is.
 */
export function newerPatches(images: Record<AddonType, string[]>): NewerPatch {
  const known = { postgres: images.postgres.map(toRelease), redis: images.redis.map(toRelease) };
  return (type, image) => {
    const own = toRelease(image);
    if (!own) return undefined;
    const newer = known[type].filter((one) => one && isNewerPatch(own, one, LINE[type]));
    return newer.toSorted((one, other) => compare(other!.version, one!.version))[0]?.image;
  };
}

type ImageRelease = { image: string; program: string; version: number[]; variant: string };

function toRelease(image: string): ImageRelease | undefined {
  const found = parseImageReference(image);
  if ("problem" in found) return undefined;
  const [, version, variant = ""] = /^v?(\d+(?:\.\d+)+)(-.+)?$/.exec(found.tag ?? "") ?? [];
  const program = found.repository.split("/").at(-1)!;
  return version ? { image, program, version: version.split(".").map(Number), variant } : undefined;
}

function isNewerPatch(own: ImageRelease, other: ImageRelease, line: number): boolean {
  return (
    own.program === other.program &&
    own.variant === other.variant &&
    own.version.length === other.version.length &&
    own.version.length > line &&
    own.version.slice(0, line).every((part, at) => part === other.version[at]) &&
    compare(other.version, own.version) > 0
  );
}

function compare(one: number[], other: number[]): number {
  const at = one.findIndex((part, index) => part !== other[index]);
  return at < 0 ? 0 : one[at]! - other[at]!;
}

/** Returns which servers could be moved, in their order, and which were moved and do not serve; pure. */
export function patchState(servers: Server[], newer: NewerPatch) {
  const behind: string[] = [];
  const stuck: string[] = [];
  for (const { set, pod } of servers) {
    const status = addonStatus(set, pod, Date.now());
    if (!status) continue;
    const image = imageOf(set);
    const serves = status.running && pod?.spec?.containers[0]?.image === image;
    const next = image && newer(status.type, image);
    const moved = set.metadata?.annotations?.[MOVED];
    if (image && image === moved && !serves) stuck.push(status.serviceId);
    else if (next && next !== moved && serves) behind.push(status.serviceId);
  }
  return { behind: behind.sort(), stuck };
}

export function imageOf(set: V1StatefulSet | undefined): string | undefined {
  return set?.spec?.template?.spec?.containers[0]?.image;
}
