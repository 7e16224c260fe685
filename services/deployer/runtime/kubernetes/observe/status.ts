import type { V1Deployment } from "@kubernetes/client-node";
import { annotation } from "../../../kube/names.ts";
import type { RuntimeReason, RuntimeState, RuntimeStatus } from "../../port.ts";
import type { ReleaseState } from "../release/release-annotations.ts";
import type { PodFacts } from "./pod-facts.ts";

/** What is known of a service at one moment. */
export type Observation = {
  deployment: V1Deployment;
  recorded: ReleaseState;
  /** All of the service's pods, those of other releases too. */
  pods: PodFacts[];
};

/** What follows from an observation; the last words of a crashed replica come to it. */
type Judgement = {
  state: RuntimeState;
  reason?: RuntimeReason;
  message?: string;
  /** The replica whose last output belongs to the message. */
  lastWords?: PodFacts;
};

/** Past it a replica that runs again does not belong to the row of crashes any more. */
const STABLE_MS = 30_000;
const PULL_FAILURES = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];
const START_FAILURES = ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"];

/** Pods of the applied template, and of others, that are not on their way out. */
export function replicasOf({ recorded, pods }: Observation): { applied: PodFacts[]; older: PodFacts[] } {
  const template = templateOf(recorded);
  const active = pods.filter((pod) => pod.endingAt === undefined && !pod.over);
  return {
    applied: active.filter((pod) => pod.template === template),
    older: active.filter((pod) => pod.template !== template),
  };
}

/** When a pod counts as available (ms); undefined while it is not ready. */
export function availableAt({ readyAt }: PodFacts, { release }: ReleaseState): number | undefined {
  return readyAt === undefined ? undefined : readyAt + release.minReadySeconds * 1000;
}

export function isAvailable(pod: PodFacts, recorded: ReleaseState, now: number): boolean {
  const at = availableAt(pod, recorded);
  // Without a time to wait for, the cluster's clock need not be ours.
  return at !== undefined && (recorded.release.minReadySeconds === 0 || at <= now);
}

/** When the applied release was available first: recorded, or what can be seen now; ms. */
export function healthyAt(seen: Observation, now: number): number | undefined {
  const { recorded } = seen;
  if (recorded.healthyAt !== undefined) return recorded.healthyAt;
  const { replicas } = recorded.release;
  const times = replicasOf(seen)
    .applied.filter((pod) => isAvailable(pod, recorded, now))
    .map((pod) => availableAt(pod, recorded) ?? now)
    .sort((one, other) => one - other);
  const whole = replicas > 0 ? times[replicas - 1] : undefined;
  // The cluster tells times to the second: none may lie before the release itself.
  return whole === undefined ? undefined : Math.min(now, Math.max(whole, recorded.appliedAt));
}

/** The status that users see, without what a crashed replica said last; pure. */
export function describe(seen: Observation, now: number, url?: string): RuntimeStatus & Judgement {
  const { release, usage } = seen.recorded;
  const { serviceId, version, revision, replicas, size, rolls } = release;
  const { applied, older } = replicasOf(seen);
  const healthy = healthyAt(seen, now);
  const serving = servingOf(seen, now);
  return {
    serviceId,
    version,
    revision,
    restarts: applied.reduce((sum, pod) => sum + pod.restarts, 0),
    ...(healthy !== undefined && { healthySince: new Date(healthy).toISOString() }),
    ...(serving && { serving: { version: serving.version, revision: serving.revision } }),
    ...(url && { url }),
    usage,
    scale: { replicas, size },
    ...(rolls && { rolls }),
    ...judge(seen, { applied, older }, healthy, now),
  };
}

/** A replica of the release that answers now: the older one's until the applied one is whole. */
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
  // Requests may still reach what is more than that.
  if (available >= replicas)
    return { state: applied.length + older.length > replicas ? "starting" : "running" };

  const serves = [...applied, ...older].some((pod) => pod.readyAt !== undefined);
  const refused = refusalOf(deployment, away);
  const worst = away.toSorted((one, other) => crashesOf(other) - crashesOf(one))[0];
  const crash = worst?.lastEnd && { message: sentenceOf(worst), lastWords: worst };
  const looping = worst !== undefined && isLooping(worst, now);
  if (healthy === undefined && isLate(seen, now)) {
    const waited = `The new release was not available after ${Math.round(deadlineOf(recorded) / 1000)} s.`;
    const why = refused?.message ?? crash?.message ?? pendingOf(away, type, recorded);
    const state = looping && !serves ? "crashed" : "degraded";
    const message = why ? `${waited} ${why}` : waited;
    return { state, reason: "rollout_deadline_exceeded", ...(!refused && crash), message };
  }
  if (refused) return refused;
  if (looping) return { state: serves ? "degraded" : "crashed", reason: "crash_loop", ...crash };
  if (healthy === undefined || !crash) {
    const waits = away.find((pod) => pod.unschedulable);
    const message = crash?.message ?? (waits && unschedulable(waits));
    return { state: "starting", ...crash, ...(message && { message }) };
  }
  return { state: "degraded", reason: "replica_ended", ...crash };
}

function isLate({ deployment, recorded }: Observation, now: number): boolean {
  const progress = deployment.status?.conditions?.find((one) => one.type === "Progressing");
  const current = (deployment.status?.observedGeneration ?? 0) >= (deployment.metadata?.generation ?? 0);
  const told = current && progress?.reason === "ProgressDeadlineExceeded";
  return told || now >= recorded.appliedAt + deadlineOf(recorded);
}

const deadlineOf = ({ manifests }: ReleaseState) =>
  (manifests.deployment.progressDeadlineSeconds ?? 300) * 1000;

const crashesOf = (pod: PodFacts) => pod.restarts + (pod.ended ? 1 : 0);

/** It ended, was started again, and ended: the cluster pauses longer each time, or it only just runs again. */
function isLooping(pod: PodFacts, now: number): boolean {
  if (pod.waiting?.reason === "CrashLoopBackOff") return true;
  if (crashesOf(pod) < 2) return false;
  return pod.runningSince === undefined || now - pod.runningSince < STABLE_MS;
}

/** Why replicas cannot even be started. */
function refusalOf(deployment: V1Deployment, away: PodFacts[]): Judgement | undefined {
  const waits = (reasons: string[]) => away.find((pod) => reasons.includes(pod.waiting?.reason ?? ""));
  const pull = waits(PULL_FAILURES)?.waiting;
  if (pull)
    return {
      state: "degraded",
      reason: "image_pull_failed",
      message: `The image could not be pulled: ${plain(pull)}`,
    };
  const start = waits(START_FAILURES)?.waiting;
  if (start)
    return { state: "degraded", reason: "start_failed", message: `It could not be started: ${plain(start)}` };
  const failure = deployment.status?.conditions?.find((one) => one.type === "ReplicaFailure");
  if (failure?.status !== "True") return undefined;
  const message = `A replica could not be made: ${failure.message ?? failure.reason ?? "the cluster refused it"}`;
  return { state: "degraded", reason: "start_failed", message };
}

/** The sentence in it, the same at each try. */
function plain({ reason, message = reason }: { reason: string; message?: string }): string {
  return message.replace(/^Back-off pulling image "[^"]*":? ?(ErrImagePull: )?/, "").trim() || reason;
}

function sentenceOf({ lastEnd }: PodFacts): string {
  if (lastEnd?.reason === "OOMKilled") return "It was ended because it took more memory than its size gives.";
  return `It ended with exit code ${lastEnd?.exitCode}.`;
}

/** What is waited for. */
function pendingOf(away: PodFacts[], type: string, { release }: ReleaseState): string | undefined {
  const waits = away.find((pod) => pod.unschedulable);
  if (waits) return unschedulable(waits);
  if (type !== "web" || !away.some((pod) => pod.runningSince !== undefined)) return undefined;
  const { healthCheckPath } = release;
  return healthCheckPath === undefined
    ? "It runs, but nothing accepted a connection on PORT."
    : `It runs, but GET ${healthCheckPath} on PORT was not answered with 200–399.`;
}

function unschedulable(pod: PodFacts): string {
  return `The cluster has no place for it: ${pod.unschedulable}`;
}

function templateOf({ manifests }: ReleaseState): string | undefined {
  return manifests.deployment.template.metadata?.annotations?.[annotation("template")];
}
