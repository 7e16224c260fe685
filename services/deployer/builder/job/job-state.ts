import type { V1Job, V1Pod } from "@kubernetes/client-node";
import type { BuildFailureCode } from "../build-failure.ts";
import type { JobEnd } from "./job-request.ts";

/** The state of a build's Job, as the cluster shows it. */
type JobState =
  /** `why` says to users what keeps the builder from starting, if anything does. */
  | { is: "waiting"; why?: string }
  | { is: "running" }
  /** The log may contain more than was read of it. */
  | { is: "ended"; end: JobEnd };

/** Returns the state of a Job. Both are undefined when they do not exist; `ran` says that the build was seen running. */
export function toJobState(job: V1Job | undefined, pod: V1Pod | undefined, ran: boolean): JobState {
  const container = pod?.status?.containerStatuses?.[0];
  const phase = pod?.status?.phase;
  if (pod && (phase === "Succeeded" || phase === "Failed" || container?.state?.terminated))
    return { is: "ended", end: toEnd(pod) };
  const condition = job?.status?.conditions?.find(
    ({ type, status }) => type === "Failed" && status === "True",
  );
  const why = startProblem(pod);
  if (condition?.reason === "DeadlineExceeded")
    return {
      is: "ended",
      end: ran
        ? buildFailure("build_timeout", "The build took too long.")
        : buildFailure("builder_unavailable", `No builder could be started in time${why ? `: ${why}` : ""}.`),
    };
  if (!job) return { is: "ended", end: { broken: "the build's Job no longer exists" } };
  if (!pod && condition) return { is: "ended", end: { broken: "the build's pod no longer exists" } };
  if (container?.state?.running) return { is: "running" };
  return { is: "waiting", ...(why && { why }) };
}

function toEnd({ status }: V1Pod): JobEnd {
  const terminated = status?.containerStatuses?.[0]?.state?.terminated;
  const reported = parseEnd(terminated?.message);
  if (reported) return reported;
  const reason = `${status?.reason ?? terminated?.reason ?? "no reason"}: ${status?.message ?? ""}`;
  if (terminated?.reason === "OOMKilled")
    return buildFailure("out_of_memory", "The build needed more memory than a builder has.");
  if (status?.reason === "Evicted" && /ephemeral|emptydir/i.test(status.message ?? ""))
    return buildFailure("disk_full", "The build needed more disk space than a builder has.");
  if (status?.reason === "DeadlineExceeded") return buildFailure("build_timeout", "The build took too long.");
  return { broken: `the builder ended without a result (${terminated?.exitCode ?? "not run"}, ${reason})` };
}

function buildFailure(code: BuildFailureCode, message: string): JobEnd {
  return { failure: { stage: "build", code, message } };
}

function parseEnd(message: string | undefined): JobEnd | undefined {
  try {
    const value = JSON.parse(message ?? "");
    return "result" in value || "failure" in value || "broken" in value ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Returns why a pod cannot start; undefined when it is only starting. */
function startProblem(pod: V1Pod | undefined): string | undefined {
  const scheduled = pod?.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False" && scheduled.reason === "Unschedulable") return "no node has room for it";
  const reason = pod?.status?.containerStatuses?.[0]?.state?.waiting?.reason ?? "";
  if (/ImagePull|InvalidImage|ErrImage/.test(reason)) return "the builder's image cannot be pulled";
  if (/Error|BackOff/.test(reason)) return "the cluster cannot start it";
  return undefined;
}
