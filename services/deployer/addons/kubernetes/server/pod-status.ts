import type { V1ContainerStatus, V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import { label } from "../../../kube/names.ts";
import { PULL_FAILURES, START_FAILURES } from "../../../kube/pods/pod-failures.ts";
import type { AddonType, ServiceSize } from "../../../terms/services.ts";
import { toStorableText } from "../../../terms/storable-text.ts";
import type { UsageChange } from "../../../terms/usage-change.ts";
import type { AddonOutcome, AddonStatus } from "../../port.ts";
import { isUnsettled, pairOf } from "../standby/pair.ts";
import { PASSWORD, SIZE, STORAGE } from "./annotations.ts";
import { podName } from "./manifests.ts";

/** What keeps a server from serving. `broken`: it needs somebody's help. */
type Problem = { message: string; broken: boolean };

/** Characters of the cluster's or the server's own words in a message. */
const MAX_QUOTE = 300;
/** How long a volume or a node may take before that counts as a problem. */
const SCHEDULING_MS = 30_000;
export const REPLACED = "The server is being replaced.";
const NO_VOLUME = "The cluster has no storage for the volume.";
const NO_ROOM = "No node of the cluster has room for the server.";
/** Of a server that needs room on its volume to start. */
export const FULL =
  "The volume is full, and the server has stopped. It starts again within minutes once the volume is larger: set config.storageGib.";

/** Returns how far an addon is towards this password and size; pure. */
export function addonOutcome(
  pod: V1Pod | undefined,
  want: { mark: string; size: ServiceSize },
  now: number,
): AddonOutcome {
  const annotations = pod?.metadata?.annotations ?? {};
  const current = annotations[PASSWORD] === want.mark && annotations[SIZE] === want.size;
  if (pod && !current) return { state: "waiting", message: REPLACED };
  if (readiness(pod).ready) return { state: "ready" };
  const { message, broken } = findProblem(pod, now);
  return { state: broken ? "failed" : "waiting", message };
}

/** Returns the status of an addon; pure. Undefined when the StatefulSet is not an addon's, or is being deleted. */
export function addonStatus(set: V1StatefulSet, pods: V1Pod[], now: number): AddonStatus | undefined {
  const labels = set.metadata?.labels ?? {};
  const [serviceId, environmentId] = [labels[label("serviceId")], labels[label("environmentId")]];
  if (!serviceId || !environmentId || set.metadata?.deletionTimestamp) return undefined;
  const type = labels["app.kubernetes.io/name"] as AddonType;
  const asked = set.metadata?.annotations?.[STORAGE];
  const pair = pairOf(set);
  const name = podName(serviceId, pair?.primary ?? 0);
  const pod = pods.find(({ metadata }) => metadata?.name === name);
  const known = {
    ...{ serviceId, environmentId, type, ...(asked && { storageGib: Number(asked) }) },
    ...(type === "redis" && { replicas: set.spec?.replicas ?? 1 }),
    ...(pair && { primary: name }),
    ...(isUnsettled(set, pods) && { outdated: true }),
  };
  const size = (pod?.metadata?.annotations?.[SIZE] ??
    set.spec?.template?.metadata?.annotations?.[SIZE]) as ServiceSize;
  const { ready } = readiness(pod);
  const usage = usageOf(pair ? pods : pod ? [pod] : [], pair ? 2 : 1, ready, size);
  if (ready) return { ...known, running: true, size, usage };
  const { message, broken } = findProblem(pod, now);
  const state = broken ? (hasExited(pod) ? "crashed" : "degraded") : "starting";
  return { ...known, running: false, size, usage, problem: { state, message } };
}

/** A server counts while it is ready, and none while the primary is not. While one is being replaced nothing is known. */
function usageOf(pods: V1Pod[], servers: number, serves: boolean, size: ServiceSize): UsageChange[] {
  const states = pods.map(readiness);
  const times = states.flatMap(({ at }, index) => at ?? (servers > 1 ? createdAt(pods[index]!) : []));
  if (times.length < servers) return [];
  const replicas = serves ? states.filter(({ ready }) => ready).length : 0;
  // Times are precise to the second: within one, ready comes after not ready.
  return [{ at: Math.max(...times) + replicas, replicas, size }];
}

const createdAt = ({ metadata }: V1Pod) => new Date(metadata?.creationTimestamp ?? 0).getTime();

/** Returns whether a pod serves, and since when (ms). */
export function readiness(pod: V1Pod | undefined): { ready: boolean; at?: number } {
  const condition = pod?.status?.conditions?.find(({ type }) => type === "Ready");
  const ready = condition?.status === "True" && !pod?.metadata?.deletionTimestamp;
  return { ready, at: timeOf(condition?.lastTransitionTime) };
}

/** In a watch, times are text. */
function timeOf(time: Date | string | undefined): number | undefined {
  return time === undefined ? undefined : new Date(time).getTime();
}

/** Returns what keeps the server of a pod from serving; pure. */
export function findProblem(pod: V1Pod | undefined, now: number): Problem {
  const waiting = (message: string) => ({ message, broken: false });
  const broken = (message: string) => ({ message, broken: true });
  if (!pod) return waiting("The server has not been created yet.");
  if (pod.metadata?.deletionTimestamp) return waiting(REPLACED);
  const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False") {
    const late = now - (timeOf(scheduled.lastTransitionTime) ?? now) >= SCHEDULING_MS;
    const volume = /volume|storageclass/i.test(scheduled.message ?? "");
    if (!late) return waiting(volume ? "The volume is being created." : "The server is waiting for a node.");
    const why = toStorableText(scheduled.message ?? "").slice(0, MAX_QUOTE);
    return broken(`${volume ? NO_VOLUME : NO_ROOM} ${why}`);
  }
  const container = pod.status?.containerStatuses?.[0];
  const reason = container?.state?.waiting?.reason ?? "";
  const image = pod.spec?.containers[0]?.image;
  if (PULL_FAILURES.includes(reason)) return broken(`The server's image, ${image}, cannot be pulled.`);
  if (START_FAILURES.includes(reason)) return broken(`The server's container cannot be created (${reason}).`);
  if (hasExited(pod)) return broken(describeExit(container));
  if (container?.started) return broken("The server does not answer.");
  return waiting("The server is starting.");
}

/** Returns whether the server has exited by itself since the pod was created; the cluster restarts it. */
function hasExited(pod: V1Pod | undefined): boolean {
  const container = pod?.status?.containerStatuses?.[0];
  return container?.state?.terminated !== undefined || (container?.restartCount ?? 0) > 0;
}

function describeExit(container: V1ContainerStatus | undefined): string {
  const end = container?.state?.terminated ?? container?.lastState?.terminated;
  if (end?.reason === "OOMKilled")
    return "The server was killed because it needed more memory than its size allows; it is being restarted.";
  if (end?.message?.split("\n").some(saysFull)) return FULL;
  const lastLine = toStorableText(end?.message ?? "")
    .trim()
    .split("\n")
    .at(-1)
    ?.slice(-MAX_QUOTE);
  const exited = `The server exited with code ${end?.exitCode ?? "unknown"} and is being restarted.`;
  return lastLine ? `${exited} ${lastLine}` : exited;
}

/** Memory that processes share is a file system too, which is small. */
const saysFull = (line: string) =>
  line.includes("No space left on device") && !line.includes("shared memory");
