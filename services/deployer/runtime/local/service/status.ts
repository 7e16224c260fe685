import type { RuntimeReason, RuntimeState, RuntimeStatus } from "../../port.ts";
import { notAvailableInTime } from "../../status-messages.ts";

/** What is known of a service at one moment. Times in ms. */
export type Observation = {
  serviceId: string;
  url?: string;
  /** All its processes are being ended. */
  stopping: boolean;
  desired: {
    version: number;
    revision: number;
    replicas: number;
    available: number;
    /** The most crashes in a row among the replicas that are not available, and how the last one ended. */
    crashes: number;
    lastEnd?: string;
    /** One of them was available and still runs, but does not answer. */
    silent?: boolean;
    restarts: number;
    appliedAt: number;
    availableAt?: number;
    /** A sentence that says what keeps a replica that runs from being available. */
    pending?: string;
    /** It has kept it for longer than most apps take to start. */
    slow?: boolean;
  };
  /** The release that receives requests. */
  live?: { version: number; revision: number; available: number };
};

export type StatusRules = {
  crashLoopAfter: number;
  rolloutDeadlineMs: number;
};

/** Returns the status that users see; pure. */
export function describeStatus(seen: Observation, rules: StatusRules, now: number): RuntimeStatus {
  const { desired, live, serviceId, url } = seen;
  const { state, reason, message } = judge(seen, rules, now);
  return {
    serviceId,
    version: desired.version,
    revision: desired.revision,
    state,
    available: availableIn(seen),
    restarts: desired.restarts,
    ...(desired.availableAt !== undefined && { healthySince: new Date(desired.availableAt).toISOString() }),
    ...(live && live.available > 0 && { serving: { version: live.version, revision: live.revision } }),
    ...(reason && { reason }),
    ...(message && { message }),
    ...(url && { url }),
  };
}

function availableIn({ stopping, desired, live }: Observation): number {
  if (stopping) return 0;
  const isOlder = live && (live.version !== desired.version || live.revision !== desired.revision);
  return desired.available + (isOlder ? live.available : 0);
}

function judge(
  { desired, live, stopping }: Observation,
  rules: StatusRules,
  now: number,
): { state: RuntimeState; reason?: RuntimeReason; message?: string } {
  if (stopping || desired.replicas === 0) return { state: "stopped" };
  if (desired.available >= desired.replicas) return { state: "running" };
  const serves = desired.available > 0 || (live?.available ?? 0) > 0;
  const looping = desired.crashes >= rules.crashLoopAfter;
  const late = desired.availableAt === undefined && now >= desired.appliedAt + rules.rolloutDeadlineMs;
  const message = desired.lastEnd ?? (late ? desired.pending : undefined);
  if (late) {
    const state = looping && !serves ? "crashed" : "degraded";
    return {
      state,
      reason: "rollout_deadline_exceeded",
      message: notAvailableInTime(rules.rolloutDeadlineMs, message),
    };
  }
  if (looping) return { state: serves ? "degraded" : "crashed", reason: "crash_loop", message };
  if (desired.silent) return { state: "degraded", reason: "health_check_failed", message: desired.pending };
  if (message === undefined && desired.slow)
    return { state: "starting", reason: "not_answering", message: desired.pending };
  return desired.availableAt === undefined || desired.lastEnd === undefined
    ? { state: "starting", message }
    : { state: "degraded", reason: "replica_ended", message };
}
