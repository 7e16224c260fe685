import type { V1ContainerStatus, V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import { label } from "../../kube/names.ts";
import type { ServiceSize } from "../../runtime/port.ts";
import { toStorableText } from "../../shared/storable-text.ts";
import type { AddonOutcome, AddonStatus, AddonType } from "../port.ts";
import { PASSWORD, SIZE } from "./manifests.ts";

/** What keeps a server from answering. `broken`: it does not come without somebody's help. */
type Trouble = { message: string; broken: boolean };

const UNPULLABLE = new Set(["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"]);
const UNMAKEABLE = new Set(["CreateContainerConfigError", "CreateContainerError", "RunContainerError"]);
const LAST_WORDS = 300;
/** As long a volume or a node may take to come without being missed. */
const PLACE_MS = 30_000;
const NO_VOLUME = "Its volume is not there: the cluster has no storage for it.";
const NO_ROOM = "No node of the cluster has room for its server.";

/** How far an addon is towards this password and size; pure. */
export function outcomeOf(
  pod: V1Pod | undefined,
  want: { mark: string; size: ServiceSize },
  now: number,
): AddonOutcome {
  const annotations = pod?.metadata?.annotations ?? {};
  const itself = annotations[PASSWORD] === want.mark && annotations[SIZE] === want.size;
  if (pod && !itself) return { state: "waiting", message: "Its server is being replaced." };
  if (readiness(pod).ready) return { state: "ready" };
  const { message, broken } = problemOf(pod, now);
  return { state: broken ? "failed" : "waiting", message };
}

/** What is seen of an addon; pure. Undefined when the StatefulSet is none of an addon. */
export function statusOf(set: V1StatefulSet, pod: V1Pod | undefined, now: number): AddonStatus | undefined {
  const labels = set.metadata?.labels ?? {};
  const [serviceId, environmentId] = [labels[label("serviceId")], labels[label("environmentId")]];
  if (!serviceId || !environmentId || set.metadata?.deletionTimestamp) return undefined;
  const type = labels["app.kubernetes.io/name"] as AddonType;
  const known = { serviceId, environmentId, type };
  const size = (pod?.metadata?.annotations?.[SIZE] ??
    set.spec?.template?.metadata?.annotations?.[SIZE]) as ServiceSize;
  const { ready, at } = readiness(pod);
  // The times have seconds: what is ready comes after what was not, within one.
  const usage = at === undefined ? [] : [{ at: at + (ready ? 1 : 0), replicas: ready ? 1 : 0, size }];
  if (ready) return { ...known, running: true, size, usage };
  const { message, broken } = problemOf(pod, now);
  const state = broken ? (hasEnded(pod) ? "crashed" : "degraded") : "starting";
  return { ...known, running: false, size, usage, problem: { state, message } };
}

/** Whether a pod serves, and since when it does or does not. */
function readiness(pod: V1Pod | undefined): { ready: boolean; at?: number } {
  const condition = pod?.status?.conditions?.find(({ type }) => type === "Ready");
  const ready = condition?.status === "True" && !pod?.metadata?.deletionTimestamp;
  return { ready, at: timeOf(condition?.lastTransitionTime) };
}

/** A watch tells times as text. */
function timeOf(time: Date | string | undefined): number | undefined {
  return time === undefined ? undefined : new Date(time).getTime();
}

function problemOf(pod: V1Pod | undefined, now: number): Trouble {
  const waiting = (message: string) => ({ message, broken: false });
  const broken = (message: string) => ({ message, broken: true });
  if (!pod) return waiting("Its server has not been made yet.");
  if (pod.metadata?.deletionTimestamp) return waiting("Its server is being replaced.");
  const placed = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (placed?.status === "False") {
    const late = now - (timeOf(placed.lastTransitionTime) ?? now) >= PLACE_MS;
    const volume = /volume|storageclass/i.test(placed.message ?? "");
    if (late)
      return broken(
        `${volume ? NO_VOLUME : NO_ROOM} ${toStorableText(placed.message ?? "").slice(0, LAST_WORDS)}`,
      );
    return waiting(volume ? "Its volume is being made." : "A place for its server is being looked for.");
  }
  const container = pod.status?.containerStatuses?.[0];
  const reason = container?.state?.waiting?.reason ?? "";
  const image = pod.spec?.containers[0]?.image;
  if (UNPULLABLE.has(reason)) return broken(`The image of its server, ${image}, cannot be pulled.`);
  if (UNMAKEABLE.has(reason)) return broken(`The container of its server cannot be made (${reason}).`);
  if (hasEnded(pod)) return broken(endOf(container));
  if (container?.started) return broken("Its server does not answer.");
  return waiting("Its server is starting.");
}

/** Whether its server has ended by itself since the pod was made: it is started again and again. */
function hasEnded(pod: V1Pod | undefined): boolean {
  const container = pod?.status?.containerStatuses?.[0];
  return container?.state?.terminated !== undefined || (container?.restartCount ?? 0) > 0;
}

function endOf(container: V1ContainerStatus | undefined): string {
  const end = container?.state?.terminated ?? container?.lastState?.terminated;
  if (end?.reason === "OOMKilled") return "Its server needed more memory than its size allows, and ended.";
  const words = toStorableText(end?.message ?? "")
    .trim()
    .split("\n")
    .at(-1)
    ?.slice(-LAST_WORDS);
  const how = `Its server has ended with exit code ${end?.exitCode ?? "unknown"}; it is started again.`;
  return words ? `${how} ${words}` : how;
}
