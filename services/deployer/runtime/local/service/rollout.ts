import { isDeepStrictEqual } from "node:util";
import { type Release, RuntimeRefusal } from "../../port.ts";
import type { Address } from "../routing/proxy.ts";
import type { Replica } from "./replica.ts";
import type { GenerationRecord, InstanceRecord, ServiceRecord } from "./service-record.ts";
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

/** Returns the rollouts of a record, without replicas yet; `live` is `desired` itself once that has taken over. */
export function restoreRollouts(record: ServiceRecord): { desired: Rollout; live?: Rollout } {
  const desired: Rollout = { record: record.desired, replicas: [] };
  if (!record.live) return { desired };
  const same = record.live.generation === record.desired.generation;
  return { desired, live: same ? desired : { record: record.live, replicas: [] } };
}

/** Returns the rollout of a release that follows `before`. */
export function nextRollout(before: Rollout, release: Release, appliedAt: number): Rollout {
  const generation = before.record.generation + 1;
  return { record: { generation, release, appliedAt, restarts: 0 }, replicas: [] };
}

/** Whether every replica of a release that has any is available. */
export function isComplete(rollout: Rollout): boolean {
  const available = countAvailable(rollout);
  return available > 0 && available === rollout.record.release.replicas;
}

/** Whether requests move to `desired`: all of it is available, or a part of it is and nothing else serves. */
export function takesOver(desired: Rollout, live: Rollout | undefined): boolean {
  if (live === desired) return false;
  const available = countAvailable(desired);
  if (available === desired.record.release.replicas) return true;
  return available > 0 && (live === undefined || countAvailable(live) === 0);
}

/** Returns the addresses of the available replicas. */
export function addressesOf(rollout: Rollout | undefined): Address[] {
  const available = (rollout?.replicas ?? []).filter((replica) => replica.available());
  return recordsOf(available).flatMap(({ host, port }) => (host ? [{ host, port }] : []));
}

/** Returns the records of the instances that replicas run now. */
export function recordsOf(replicas: Replica[]): InstanceRecord[] {
  return replicas.map((replica) => replica.record()).filter((one) => one !== undefined);
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
