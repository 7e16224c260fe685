import type { V1Job, V1Pod } from "@kubernetes/client-node";
import type { BuildFailureCode } from "../port.ts";
import type { JobEnd } from "./job-request.ts";

/** How far a build's Job is, by what the cluster shows of it. */
type JobState =
  /** `why` is for users, where something is in the way. */
  | { is: "waiting"; why?: string }
  | { is: "running" }
  /** The log may hold more than was read of it. */
  | { is: "ended"; end: JobEnd };

/** Pure. `job` and `pod` are undefined when they are not there; `ran`: the build was seen running before. */
export function stateOf(job: V1Job | undefined, pod: V1Pod | undefined, ran: boolean): JobState {
  const container = pod?.status?.containerStatuses?.[0];
  const phase = pod?.status?.phase;
  if (pod && (phase === "Succeeded" || phase === "Failed" || container?.state?.terminated))
    return { is: "ended", end: endOfPod(pod) };
  const condition = job?.status?.conditions?.find(
    ({ type, status }) => type === "Failed" && status === "True",
  );
  const why = waitingFor(pod);
  if (condition?.reason === "DeadlineExceeded")
    return {
      is: "ended",
      end: ran
        ? failure("build_timeout", "The build took too long.")
        : failure("builder_unavailable", `No builder could be started in time${why ? `: ${why}` : ""}.`),
    };
  if (!job) return { is: "ended", end: { broken: "the build's Job is no more" } };
  if (!pod && condition) return { is: "ended", end: { broken: "the build's pod is no more" } };
  if (container?.state?.running) return { is: "running" };
  return { is: "waiting", ...(why && { why }) };
}

function endOfPod({ status }: V1Pod): JobEnd {
  const terminated = status?.containerStatuses?.[0]?.state?.terminated;
  const written = parse(terminated?.message);
  if (written) return written;
  const said = `${status?.reason ?? terminated?.reason ?? "no reason"}: ${status?.message ?? ""}`;
  if (terminated?.reason === "OOMKilled")
    return failure("out_of_memory", "The build needed more memory than a builder has.");
  if (status?.reason === "Evicted" && /ephemeral|emptydir/i.test(status.message ?? ""))
    return failure("disk_full", "The build needed more room on the disk than a builder has.");
  if (status?.reason === "DeadlineExceeded") return failure("build_timeout", "The build took too long.");
  return { broken: `the builder ended without a result (${terminated?.exitCode ?? "not run"}, ${said})` };
}

function failure(code: BuildFailureCode, message: string): JobEnd {
  return { failure: { stage: "build", code, message } };
}

function parse(message: string | undefined): JobEnd | undefined {
  try {
    const value = JSON.parse(message ?? "");
    return "result" in value || "failure" in value || "broken" in value ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Why a pod does not start, where it is more than that it has just been made. */
function waitingFor(pod: V1Pod | undefined): string | undefined {
  const scheduled = pod?.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False" && scheduled.reason === "Unschedulable") return "no node has room for it";
  const reason = pod?.status?.containerStatuses?.[0]?.state?.waiting?.reason ?? "";
  if (/ImagePull|InvalidImage|ErrImage/.test(reason)) return "the builder's image cannot be pulled";
  if (/Error|BackOff/.test(reason)) return "the cluster cannot start it";
  return undefined;
}
