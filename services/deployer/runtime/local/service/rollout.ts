import { isDeepStrictEqual } from "node:util";
import { type Release, RuntimeRefusal } from "../../port.ts";
import type { Replica } from "./replica.ts";
import type { GenerationRecord } from "./service-record.ts";
import type { Observation } from "./status.ts";

/** A release on its way in, in place, or on its way out, and its replicas. */
export type Rollout = {
  record: GenerationRecord;
  replicas: Replica[];
};

/** What is known of it at this moment. */
export function toObservation(rollout: Rollout): Observation["desired"] {
  const { release, restarts, appliedAt, availableAt } = rollout.record;
  const { version, revision, replicas, type, healthCheckPath } = release;
  const away = rollout.replicas.filter((replica) => !replica.available());
  const worst = away.sort((one, other) => other.crashes() - one.crashes())[0];
  const check =
    healthCheckPath === undefined
      ? "nothing accepted a connection on PORT"
      : `GET ${healthCheckPath} on PORT was not answered with 200–399`;
  return {
    version,
    revision,
    replicas,
    restarts,
    appliedAt,
    availableAt,
    available: countAvailable(rollout),
    crashes: worst?.crashes() ?? 0,
    silent: away.some((replica) => replica.silent()),
    lastEnd: worst?.lastEnd(),
    pending: type === "web" ? `It runs, but ${check}.` : undefined,
  };
}

/** How many of its replicas requests can be sent to. */
export function countAvailable(rollout: Rollout): number {
  return rollout.replicas.filter((replica) => replica.available()).length;
}

/** The place of a replica, by which an instance of an earlier process is known again. */
export function slotOf(generation: number, replica: number): string {
  return `${generation}/${replica}`;
}

/** Throws for a release that is older than the one applied. */
export function refuseOlder(current: Release, release: Release): void {
  const older = release.version - current.version || release.revision - current.revision;
  if (older < 0) {
    throw new RuntimeRefusal("release_superseded", `Version ${current.version} has been applied already.`);
  }
}

/** Whether the processes of `current` cannot go on as those of `release`. */
export function needsProcesses(current: Release, release: Release): boolean {
  const part = ({ version, revision, rolls = 0, artifact, command, type, env }: Release) => [
    version,
    revision,
    rolls,
    artifact,
    command,
    type,
    env,
  ];
  return !isDeepStrictEqual(part(current), part(release));
}
