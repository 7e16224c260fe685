import type {
  V1ContainerState,
  V1ContainerStateTerminated,
  V1Pod,
  V1PodCondition,
} from "@kubernetes/client-node";
import { annotation, label } from "../../../../kube/names.ts";
import type { ServiceSize } from "../../../../terms/services.ts";

/** How an instance of a container ended. Times in ms. */
export type End = { exitCode: number; reason?: string; startedAt: number; finishedAt: number };

/** What matters of an app's pod. Times in ms since 1970, precise to the second as the cluster's are. */
export type PodFacts = {
  name: string;
  uid: string;
  version: number;
  revision: number;
  size?: ServiceSize;
  /** Hash of the template that it was created from. */
  template?: string;
  createdAt: number;
  /** When its termination was requested. */
  endingAt?: number;
  /** It ended for good: evicted, for example. */
  over: boolean;
  /** It was ended because it used more local disk than it may. */
  filledDisk: boolean;
  /** Since when it is ready. */
  readyAt?: number;
  /** Since when it is not ready, where the cluster says so. */
  unreadyAt?: number;
  /** When the running container was started. */
  runningSince?: number;
  restarts: number;
  /** Why its container does not run. */
  waiting?: { reason: string; message?: string };
  /** How its container ended last, and whether it has not been restarted since. */
  lastEnd?: End;
  ended: boolean;
  /** Why no node can run it. */
  unschedulable?: string;
};

/** Returns the facts of an app's pod. */
export function podFacts(pod: V1Pod): PodFacts {
  const { metadata, status } = pod;
  const condition = (type: string) => status?.conditions?.find((one) => one.type === type);
  const container = status?.containerStatuses?.[0];
  const ready = condition("Ready");
  const scheduled = condition("PodScheduled");
  const state: V1ContainerState = container?.state ?? {};
  const end = state.terminated ?? container?.lastState?.terminated;
  const changed = time(ready?.lastTransitionTime);
  return {
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    version: Number(metadata?.labels?.[label("version")]),
    revision: Number(metadata?.labels?.[label("revision")]),
    size: metadata?.annotations?.[annotation("size")] as ServiceSize | undefined,
    template: metadata?.annotations?.[annotation("template")],
    createdAt: time(metadata?.creationTimestamp) ?? 0,
    endingAt: endingAt(pod),
    over: status?.phase === "Failed" || status?.phase === "Succeeded",
    filledDisk: status?.reason === "Evicted" && /ephemeral|emptydir/i.test(status.message ?? ""),
    readyAt: ready?.status === "True" ? changed : undefined,
    unreadyAt: ready?.status === "False" ? changed : undefined,
    runningSince: time(state.running?.startedAt),
    restarts: container?.restartCount ?? 0,
    waiting: state.waiting && { reason: state.waiting.reason ?? "", message: state.waiting.message },
    lastEnd: end && endOf(end),
    ended: state.terminated !== undefined,
    unschedulable: scheduled?.reason === "Unschedulable" ? scheduled.message : undefined,
  };
}

/** Returns those members of an app's pod from which its facts are derived. */
export function withoutUnread({ metadata, status }: V1Pod): V1Pod {
  const { phase, reason, message, conditions, containerStatuses } = status ?? {};
  const isRead = ({ type }: V1PodCondition) => type === "Ready" || type === "PodScheduled";
  const containers = containerStatuses?.map(
    ({ name, image, imageID, ready, restartCount, state, lastState }) => ({
      ...{ name, image, imageID, ready, restartCount, state, lastState },
    }),
  );
  return {
    metadata,
    status: { phase, reason, message, conditions: conditions?.filter(isRead), containerStatuses: containers },
  };
}

/** The cluster records when the pod must be gone; the request came a grace period earlier. */
function endingAt({ metadata }: V1Pod): number | undefined {
  const until = time(metadata?.deletionTimestamp);
  return until === undefined ? undefined : until - (metadata?.deletionGracePeriodSeconds ?? 0) * 1000;
}

function endOf(end: V1ContainerStateTerminated): End {
  return {
    exitCode: end.exitCode,
    ...(end.reason && { reason: end.reason }),
    startedAt: time(end.startedAt) ?? 0,
    finishedAt: time(end.finishedAt) ?? 0,
  };
}

const time = (at: Date | string | undefined | null) => (at ? new Date(at).getTime() : undefined);
