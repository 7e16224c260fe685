import type { RuntimeReason, RuntimeState, RuntimeStatus } from "../../port.ts";

/** What is known of a service at one moment. Times in ms. */
export type Observation = {
  serviceId: string;
  url?: string;
  /** All of it is being ended. */
  stopping: boolean;
  desired: {
    version: number;
    revision: number;
    replicas: number;
    available: number;
    /** The most crashes in a row among the replicas that are not available, and how the last one ended. */
    crashes: number;
    lastEnd?: string;
    /** One of them was available and runs, but does not answer any more. */
    silent?: boolean;
    restarts: number;
    appliedAt: number;
    availableAt?: number;
    /** What is waited for, as a sentence. */
    pending?: string;
  };
  /** What requests reach. */
  live?: { version: number; revision: number; available: number };
};

export type StatusRules = {
  crashLoopAfter: number;
  rolloutDeadlineMs: number;
};

/** The status that users see; pure. */
export function describeStatus(seen: Observation, rules: StatusRules, now: number): RuntimeStatus {
  const { desired, live, serviceId, url } = seen;
  const { state, reason, message } = judge(seen, rules, now);
  return {
    serviceId,
    version: desired.version,
    revision: desired.revision,
    state,
    restarts: desired.restarts,
    ...(desired.availableAt !== undefined && { healthySince: new Date(desired.availableAt).toISOString() }),
    ...(live && live.available > 0 && { serving: { version: live.version, revision: live.revision } }),
    ...(reason && { reason }),
    ...(message && { message }),
    ...(url && { url }),
  };
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
    const waited = `The new release was not available after ${Math.round(rules.rolloutDeadlineMs / 1000)} s.`;
    const state = looping && !serves ? "crashed" : "degraded";
    return { state, reason: "rollout_deadline_exceeded", message: message ? `${waited} ${message}` : waited };
  }
  if (looping) return { state: serves ? "degraded" : "crashed", reason: "crash_loop", message };
  if (desired.silent) return { state: "degraded", reason: "health_check_failed", message: desired.pending };
  return desired.availableAt === undefined || desired.lastEnd === undefined
    ? { state: "starting", message }
    : { state: "degraded", reason: "replica_ended", message };
}
