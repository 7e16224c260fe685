import type { V1Deployment } from "@kubernetes/client-node";
import { annotation } from "../../../../kube/names.ts";
import { PULL_FAILURES, START_FAILURES } from "../../../../kube/pods/pod-failures.ts";
import type { RuntimeReason, RuntimeState, RuntimeStatus } from "../../../port.ts";
import {
  describeExit,
  describeOutOfMemory,
  notAnswering,
  notAvailableInTime,
  SLOW_START_MS,
} from "../../../status-messages.ts";
import type { ReleaseState } from "../../release/release-annotations.ts";
import type { PodFacts } from "./pod-facts.ts";

/** What is seen of a service at one moment. */
export type Observation = {
  deployment: V1Deployment;
  recorded: ReleaseState;
  /** All of the service's pods, those of other releases too. */
  pods: PodFacts[];
};

/** What follows from an observation. */
type Judgement = {
  state: RuntimeState;
  reason?: RuntimeReason;
  message?: string;
  /** The replica whose last output belongs behind the message. */
  crashed?: PodFacts;
};

/** A replica that has run this long since its last crash no longer counts as looping. */
const STABLE_MS = 30_000;

/** Returns the pods of the applied template, and of others, that are not terminating. */
export function replicasOf({ recorded, pods }: Observation): { applied: PodFacts[]; older: PodFacts[] } {
  const template = templateOf(recorded);
  const active = pods.filter((pod) => pod.endingAt === undefined && !pod.over);
  return {
    applied: active.filter((pod) => pod.template === template),
    older: active.filter((pod) => pod.template !== template),
  };
}

/** Returns when a pod counts as available (ms); undefined while it is not ready. */
export function availableAt({ readyAt }: PodFacts, { release }: ReleaseState): number | undefined {
  return readyAt === undefined ? undefined : readyAt + release.minReadySeconds * 1000;
}

export function isAvailable(pod: PodFacts, recorded: ReleaseState, now: number): boolean {
  const at = availableAt(pod, recorded);
  // With no time to wait, the cluster's clock need not agree with ours.
  return at !== undefined && (recorded.release.minReadySeconds === 0 || at <= now);
}

/**
 * Returns in how many ms time alone changes the status: the next ready replica counts as available, or one that runs is
 * said to be slow. Undefined when nothing is waited for. Pure.
 */
export function msUntilChange(seen: Observation, now: number): number | undefined {
  const { recorded, pods } = seen;
  const times = pods
    .filter((pod) => pod.readyAt !== undefined && !isAvailable(pod, recorded, now))
    .map((pod) => (availableAt(pod, recorded) ?? now) - now);
  const slow = msUntilSlow(seen, now);
  if (slow !== undefined && slow > 0) times.push(slow);
  return times.length > 0 ? Math.min(...times) : undefined;
}

/** Returns in how many ms a web service's replica that runs and is not ready is slow, 0 when it is; else undefined. */
function msUntilSlow(seen: Observation, now: number): number | undefined {
  if (seen.recorded.release.type !== "web") return undefined;
  const since = replicasOf(seen).applied.flatMap((pod) =>
    pod.readyAt === undefined && pod.runningSince !== undefined ? [pod.runningSince] : [],
  );
  return since.length > 0 ? Math.max(0, Math.min(...since) + SLOW_START_MS - now) : undefined;
}

/** Returns when the applied release was first available, as recorded or as seen now (ms). */
export function healthyAt(seen: Observation, now: number): number | undefined {
  const { recorded } = seen;
  if (recorded.healthyAt !== undefined) return recorded.healthyAt;
  const { replicas } = recorded.release;
  const times = replicasOf(seen)
    .applied.filter((pod) => isAvailable(pod, recorded, now))
    .map((pod) => availableAt(pod, recorded) ?? now)
    .sort((one, other) => one - other);
  const whole = replicas > 0 ? times[replicas - 1] : undefined;
  // The cluster's times are precise to the second: none may precede the release itself.
  return whole === undefined ? undefined : Math.min(now, Math.max(whole, recorded.appliedAt));
}

/** Returns the status that users see, without the output of a crashed replica; pure. */
export function describeStatus(seen: Observation, now: number, url?: string): RuntimeStatus & Judgement {
  const { release, usage } = seen.recorded;
  const { serviceId, version, revision, replicas, size, autoscaling, rolls } = release;
  const { applied, older } = replicasOf(seen);
  const healthy = healthyAt(seen, now);
  const serving = servingOf(seen, now);
  return {
    serviceId,
    version,
    revision,
    available:
      applied.filter((pod) => isAvailable(pod, seen.recorded, now)).length +
      older.filter((pod) => pod.readyAt !== undefined).length,
    restarts: applied.reduce((sum, pod) => sum + pod.restarts, 0),
    ...(healthy !== undefined && { healthySince: new Date(healthy).toISOString() }),
    ...(serving && { serving: { version: serving.version, revision: serving.revision } }),
    ...(url && { url }),
    usage,
    scale: { replicas, size, ...(autoscaling && { autoscaling }) },
    ...(rolls && { rolls }),
    ...judge(seen, { applied, older }, healthy, now),
  };
}

/** Returns a replica of the release that serves: an older one until all replicas of the applied one are available. */
export function servingOf(seen: Observation, now: number): PodFacts | undefined {
  const { applied, older } = replicasOf(seen);
  const available = applied.filter((pod) => isAvailable(pod, seen.recorded, now));
  if (available.length > 0 && available.length >= seen.recorded.release.replicas) return available[0];
  const before = older
    .filter((pod) => pod.readyAt !== undefined)
    .sort((one, other) => other.version - one.version || other.revision - one.revision);
  return before[0] ?? available[0] ?? applied.find((pod) => pod.readyAt !== undefined);
}

function judge(
  seen: Observation,
  { applied, older }: ReturnType<typeof replicasOf>,
  healthy: number | undefined,
  now: number,
): Judgement {
  const { recorded, deployment } = seen;
  const { replicas, type } = recorded.release;
  const away = applied.filter((pod) => !isAvailable(pod, recorded, now));
  const available = applied.length - away.length;
  if (deployment.metadata?.deletionTimestamp) return { state: "stopped" };
  if (replicas === 0) return { state: applied.length + older.length === 0 ? "stopped" : "starting" };
  // While there are more, requests may still reach the older ones.
  if (available >= replicas)
    return { state: applied.length + older.length > replicas ? "starting" : "running" };

  const serves = [...applied, ...older].some((pod) => pod.readyAt !== undefined);
  const refused = refusalOf(deployment, away);
  const worst = away.toSorted((one, other) => crashesOf(other) - crashesOf(one))[0];
  const crash = worst?.lastEnd
    ? { message: describeEnd(worst, recorded), crashed: worst }
    : filledDisk(seen)
      ? { message: "The app was ended because it used more local disk than its size allows." }
      : undefined;
  const looping = worst !== undefined && isLooping(worst, now);
  if (healthy === undefined && isLate(seen, now)) {
    const why = refused?.message ?? crash?.message ?? pendingReason(away, type, recorded);
    const state = looping && !serves ? "crashed" : "degraded";
    const message = notAvailableInTime(deadlineOf(recorded), why);
    return { state, reason: "rollout_deadline_exceeded", ...(!refused && crash), message };
  }
  if (refused) return refused;
  if (looping) return { state: serves ? "degraded" : "crashed", reason: "crash_loop", ...crash };
  if (healthy === undefined || !crash) {
    const unscheduled = away.find((pod) => pod.unschedulable);
    const message = crash?.message ?? (unscheduled && notScheduled(unscheduled));
    if (!message && msUntilSlow(seen, now) === 0)
      return { state: "starting", reason: "not_answering", message: notAnswering(recorded.release) };
    return { state: "starting", ...crash, ...(message && { message }) };
  }
  return { state: "degraded", reason: "replica_ended", ...crash };
}

/** Whether a replica of the release was evicted for what it wrote; another was made in its place. */
function filledDisk({ recorded, pods }: Observation): boolean {
  return pods.some((pod) => pod.filledDisk && pod.template === templateOf(recorded));
}

function isLate({ deployment, recorded }: Observation, now: number): boolean {
  const progress = deployment.status?.conditions?.find((one) => one.type === "Progressing");
  const current = (deployment.status?.observedGeneration ?? 0) >= (deployment.metadata?.generation ?? 0);
  const exceeded = current && progress?.reason === "ProgressDeadlineExceeded";
  return exceeded || now >= recorded.appliedAt + deadlineOf(recorded);
}

const deadlineOf = ({ manifests }: ReleaseState) =>
  (manifests.deployment.progressDeadlineSeconds ?? 300) * 1000;

const crashesOf = (pod: PodFacts) => pod.restarts + (pod.ended ? 1 : 0);

/** Returns whether a replica crashes again and again: the cluster backs off, or it was restarted just now. */
function isLooping(pod: PodFacts, now: number): boolean {
  if (pod.waiting?.reason === "CrashLoopBackOff") return true;
  if (crashesOf(pod) < 2) return false;
  return pod.runningSince === undefined || now - pod.runningSince < STABLE_MS;
}

/** Returns why replicas cannot even be started; undefined when they can. */
function refusalOf(deployment: V1Deployment, away: PodFacts[]): Judgement | undefined {
  const waitingFor = (reasons: string[]) =>
    away.find((pod) => reasons.includes(pod.waiting?.reason ?? ""))?.waiting;
  const pull = waitingFor(PULL_FAILURES);
  if (pull)
    return {
      state: "degraded",
      reason: "image_pull_failed",
      message: `The image could not be pulled: ${withoutBackOff(pull)}`,
    };
  const start = waitingFor(START_FAILURES);
  if (start)
    return {
      state: "degraded",
      reason: "start_failed",
      message: `The app could not be started: ${withoutBackOff(start)}`,
    };
  const failure = deployment.status?.conditions?.find((one) => one.type === "ReplicaFailure");
  if (failure?.status !== "True") return undefined;
  const why = failure.message ?? failure.reason ?? "the cluster refused it";
  const message = `A replica could not be created: ${why}`;
  return { state: "degraded", reason: "start_failed", message };
}

/** Returns the message without what differs between attempts. */
function withoutBackOff({ reason, message = reason }: { reason: string; message?: string }): string {
  return message.replace(/^Back-off pulling image "[^"]*":? ?(ErrImagePull: )?/, "").trim() || reason;
}

function describeEnd({ lastEnd }: PodFacts, { release: { size } }: ReleaseState): string {
  return lastEnd?.reason === "OOMKilled" ? describeOutOfMemory(size) : describeExit(lastEnd?.exitCode);
}

/** Returns why replicas that do not crash are not available. */
function pendingReason(away: PodFacts[], type: string, { release }: ReleaseState): string | undefined {
  const unscheduled = away.find((pod) => pod.unschedulable);
  if (unscheduled) return notScheduled(unscheduled);
  const waits = type === "web" && away.some((pod) => pod.runningSince !== undefined);
  return waits ? notAnswering(release) : undefined;
}

function notScheduled(pod: PodFacts): string {
  return `No node of the cluster can run the app: ${pod.unschedulable}`;
}

function templateOf({ manifests }: ReleaseState): string | undefined {
  return manifests.deployment.template.metadata?.annotations?.[annotation("template")];
}
