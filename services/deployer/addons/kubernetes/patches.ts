import type { V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import { createReadGauge } from "../../../kit/telemetry.ts";
import type { AddonType } from "../../terms/services.ts";
import { MOVED } from "./server/annotations.ts";
import { addonStatus, readiness } from "./server/pod-status.ts";
import { compareVersions, type ImageRelease, LINE, toRelease } from "./versions.ts";

// Servers follow patch releases: one after another, each only once the one before is ready.

/** Returns the image of a newer patch release for a server that has this one. */
export type NewerPatch = (type: AddonType, image: string) => string | undefined;

export type Server = { set: V1StatefulSet; pods: V1Pod[] };

/** A server with its image, and the one that Berth moved it to last. It serves once all of it has the image. */
export type Patchable = {
  serviceId: string;
  type: AddonType;
  image?: string;
  serves: boolean;
  moved?: string;
};

type PatchState = { behind: string[]; stuck: string[] };

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
    return newer.toSorted((one, other) => compareVersions(other!.version, one!.version))[0]?.image;
  };
}

function isNewerPatch(own: ImageRelease, other: ImageRelease, line: number): boolean {
  return (
    own.program === other.program &&
    own.variant === other.variant &&
    own.version.length === other.version.length &&
    own.version.length > line &&
    own.version.slice(0, line).every((part, at) => part === other.version[at]) &&
    compareVersions(other.version, own.version) > 0
  );
}

/** Returns what decides about a server that is a StatefulSet; pure. Undefined where it is no addon's. */
function toPatchable({ set, pods }: Server): Patchable | undefined {
  const status = addonStatus(set, pods, Date.now());
  const image = imageOf(set);
  const isWhole = pods.length === (set.spec?.replicas ?? 1) && pods.every((pod) => readiness(pod).ready);
  const hasImage = pods.every((pod) => pod.spec?.containers[0]?.image === image);
  const serves = status?.running === true && isWhole && hasImage;
  return status && { ...status, image, serves, moved: set.metadata?.annotations?.[MOVED] };
}

/** Returns those of these servers that are addons', as patch releases see them. */
export const patchables = (servers: Server[]) => servers.flatMap((server) => toPatchable(server) ?? []);

/** Returns which servers could be moved, in their order, and which were moved and do not serve; pure. */
export function patchState(servers: Patchable[], newer: NewerPatch): PatchState {
  const behind: string[] = [];
  const stuck: string[] = [];
  for (const { serviceId, type, image, serves, moved } of servers) {
    const next = image && newer(type, image);
    if (image && image === moved && !serves) stuck.push(serviceId);
    else if (next && next !== moved && serves) behind.push(serviceId);
  }
  return { behind: behind.sort(), stuck };
}

/** All servers are asked about by the first comparisons with the database. */
const AFTER_MS = 120_000;

/** Decides which server of an engine moves to a newer patch release, one after another; and reports how many are left. */
export function createPatches(
  engine: string,
  newer: NewerPatch,
  servers: () => Patchable[],
  afterMs = AFTER_MS,
) {
  const state = () => patchState(servers(), newer);
  const begunAt = Date.now();
  const report = (reported: () => PatchState) => {
    reports.set(engine, reported);
    watchBehind(async () => total("behind"));
    watchStuck(async () => total("stuck"));
  };
  return {
    /** Returns the one server that is to move now. A process that has just begun may not know all servers, and moves none. */
    next(): string | undefined {
      if (Date.now() - begunAt < afterMs) return undefined;
      const { behind, stuck } = state();
      return stuck.length > 0 ? undefined : behind[0];
    },
    report: () => report(state),
    stop: () => report(() => ({ behind: [], stuck: [] })),
  };
}

/** Of each engine. */
const reports = new Map<string, () => PatchState>();
const total = (of: keyof PatchState) =>
  [...reports.values()].reduce((sum, reported) => sum + reported()[of].length, 0);

const watchBehind = createReadGauge({
  name: "berth_addons_behind",
  help: "Addons whose servers are still to be moved to a newer patch release, as known to the leading deployer",
});
const watchStuck = createReadGauge({
  name: "berth_addons_stuck",
  help: "Addons whose servers were moved to a newer patch release and do not serve, so that no other is moved",
});

export function imageOf(set: V1StatefulSet | undefined): string | undefined {
  return set?.spec?.template?.spec?.containers[0]?.image;
}
