import type { V1ContainerState, V1ContainerStateTerminated, V1Pod } from "@kubernetes/client-node";
import { annotation, label } from "../../../kube/names.ts";
import type { ServiceSize } from "../../port.ts";

/** How an instance of a container ended. Times in ms. */
export type End = { exitCode: number; reason?: string; startedAt: number; finishedAt: number };

/** What counts of an app's pod. Times in ms since 1970, as the cluster tells them: to the second. */
export type PodFacts = {
  name: string;
  uid: string;
  version: number;
  revision: number;
  size?: ServiceSize;
  /** Tells pods of the applied template from others. */
  template?: string;
  createdAt: number;
  /** When it was asked to end. */
  endingAt?: number;
  /** It ended for good: evicted, for example. */
  over: boolean;
  /** Since when it is ready. */
  readyAt?: number;
  /** Since when it is not ready any more, where it is told. */
  unreadyAt?: number;
  /** When what runs now was started. */
  runningSince?: number;
  restarts: number;
  /** Why nothing runs in it. */
  waiting?: { reason: string; message?: string };
  /** How the newest instance that ended did, and whether it is the newest of all. */
  lastEnd?: End;
  ended: boolean;
  /** No node takes it. */
  unschedulable?: string;
};

/** The facts of a pod that belongs to an app. */
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

/** The cluster tells when it must be gone; it was asked to a grace period before. */
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
