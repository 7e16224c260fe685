import { isDeepStrictEqual } from "node:util";
import type { V1Deployment } from "@kubernetes/client-node";
import { contains } from "../observe/drift/drift.ts";
import { usageWanted } from "../observe/usage.ts";
import type { AppRelease, Manifests } from "./manifests.ts";
import type { ReleaseState } from "./release-annotations.ts";

/** Returns the state of a service once the release is applied; pure. A release that is only scaled keeps its times. */
export function nextState(
  release: AppRelease,
  manifests: Manifests,
  before: ReleaseState | undefined,
  now: number,
): ReleaseState {
  const { appliedAt = now, healthyAt } = before && hasSamePods(before.release, release) ? before : {};
  return {
    release,
    manifests,
    appliedAt,
    ...(healthyAt !== undefined && { healthyAt }),
    usage: usageWanted(before?.usage ?? [], release.replicas, now),
    ...(before?.hosts && { hosts: before.hosts }),
  };
}

/** Returns whether applying `next` to the Deployment would change nothing; pure. */
export function isApplied(live: V1Deployment, before: ReleaseState | undefined, next: ReleaseState): boolean {
  const applied = ({ release, manifests, usage, hosts = [] }: ReleaseState) => ({
    release,
    manifests,
    usage,
    hosts,
  });
  return (
    before !== undefined &&
    isDeepStrictEqual(applied(next), applied(before)) &&
    contains(live.spec, next.manifests.deployment)
  );
}

function hasSamePods(one: AppRelease, other: AppRelease): boolean {
  const { version, revision, rolls = 0 } = one;
  return version === other.version && revision === other.revision && rolls === (other.rolls ?? 0);
}
