import { isDeepStrictEqual } from "node:util";
import type { Release } from "../../../port.ts";
import { notAnswering } from "../../../status-messages.ts";
import type { Address } from "../../routing/proxy.ts";
import type { GenerationRecord, InstanceRecord, ServiceRecord } from "../record/service-record.ts";
import type { Observation } from "../status.ts";
import type { Replica } from "./replica.ts";

/** A release that is being rolled out, serves, or is being replaced; and its replicas. */
export type Rollout = {
  record: GenerationRecord;
  replicas: Replica[];
};

/** Returns what is known of a rollout now. */
export function toObservation(rollout: Rollout): Observation["desired"] {
  const { release, restarts, appliedAt, availableAt } = rollout.record;
  const { version, revision, replicas, type, healthCheckPath } = release;
  const away = rollout.replicas.filter((replica) => !replica.available());
  const worst = away.sort((one, other) => other.crashes() - one.crashes())[0];
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
    pending: type === "web" ? pendingOf(worst, healthCheckPath) : undefined,
    slow: away.some((replica) => replica.slow() !== undefined),
  };
}

/** What keeps a replica that runs from being available. */
function pendingOf(replica: Replica | undefined, healthCheckPath: string | undefined): string | undefined {
  const port = replica?.record()?.port;
  return replica?.slow() ?? (port === undefined ? undefined : notAnswering({ port, healthCheckPath }));
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

/** Returns whether a release has replicas and all of them are available. */
export function isComplete(rollout: Rollout): boolean {
  const available = countAvailable(rollout);
  return available > 0 && available === rollout.record.release.replicas;
}

/** Returns whether requests move to `desired`: it is available, or it is in part and nothing else serves. */
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

/** Returns how many replicas can take requests. */
export function countAvailable(rollout: Rollout): number {
  return rollout.replicas.filter((replica) => replica.available()).length;
}

/** Returns the slot of a replica, by which an instance that an earlier process started is recognised. */
export function slotOf(generation: number, replica: number): string {
  return `${generation}/${replica}`;
}

/** Returns whether `release` needs processes of its own: those of `current` cannot serve it. */
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
