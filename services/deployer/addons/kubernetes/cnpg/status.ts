import type { V1Pod } from "@kubernetes/client-node";
import type { PostgresClusterObject } from "../../../kube/kinds.ts";
import { label } from "../../../kube/names.ts";
import type { ServiceSize } from "../../../terms/services.ts";
import { toStorableText } from "../../../terms/storable-text.ts";
import { addonName } from "../../keys.ts";
import type { AddonOutcome, AddonStatus } from "../../port.ts";
import { SIZE, STORAGE } from "../server/annotations.ts";
import { FULL, findProblem, REPLACED, readiness } from "../server/pod-status.ts";
import { CHANGED } from "./manifests.ts";

/** Characters of the operator's own words in a message. */
const MAX_QUOTE = 300;
/** What the operator waits in for somebody. */
const BROKEN_PHASES = [
  "Cluster is unrecoverable and needs manual intervention",
  "Invalid cluster definition",
  "Unable to create required cluster objects",
  "Cluster cannot execute instance online upgrade due to missing architecture binary",
];
/** With this code an instance ends that has no room for its next two files of write-ahead log. */
const NO_ROOM_EXIT = 4;
const TAKES_OVER = "Another instance takes over.";
const NOT_BEGUN = "The operator CloudNativePG has not begun with the server yet.";
const PASSWORD = "The server takes its password.";

/** Returns how far an addon is; `secretVersion` is the resource version of its Secret. Pure. */
export function clusterOutcome(
  cluster: PostgresClusterObject,
  pods: V1Pod[],
  want: { serviceId: string; secretVersion: string | undefined },
  now: number,
): AddonOutcome {
  const problem = problemOf(cluster, pods, now);
  if (problem) return { state: problem.broken ? "failed" : "waiting", message: problem.message };
  const { passwordStatus, cannotReconcile } = cluster.status?.managedRolesStatus ?? {};
  const role = addonName(want.serviceId);
  if (want.secretVersion !== undefined && passwordStatus?.[role]?.resourceVersion === want.secretVersion)
    return { state: "ready" };
  const [why] = cannotReconcile?.[role] ?? [];
  return { state: "waiting", message: why === undefined ? PASSWORD : `${PASSWORD} ${quote(why)}` };
}

/** Returns the status of an addon; pure. Undefined when the Cluster is not an addon's, or is being deleted. */
export function clusterStatus(
  cluster: PostgresClusterObject,
  pods: V1Pod[],
  now: number,
): AddonStatus | undefined {
  const { labels = {}, annotations = {}, deletionTimestamp } = cluster.metadata ?? {};
  const [serviceId, environmentId] = [labels[label("serviceId")], labels[label("environmentId")]];
  if (!serviceId || !environmentId || deletionTimestamp) return undefined;
  const size = annotations[SIZE] as ServiceSize;
  const problem = problemOf(cluster, pods, now);
  const replicas = cluster.spec?.instances;
  const { [STORAGE]: asked } = annotations;
  const own = { replicas, ...(asked && { storageGib: Number(asked) }) };
  const known = { serviceId, environmentId, type: "postgres", engine: "cnpg", size, ...own } as const;
  const usage = usageOf(cluster, pods, problem === undefined);
  if (!problem) return { ...known, running: true, usage, primary: cluster.status?.currentPrimary };
  const state = problem.broken ? "degraded" : "starting";
  return { ...known, running: false, usage, problem: { state, message: problem.message } };
}

/** An instance counts while it is ready, and none while the primary is not. */
function usageOf({ metadata, spec }: PostgresClusterObject, pods: V1Pod[], serves: boolean) {
  const states = instancesOf(pods).map(readiness);
  const times = states.flatMap(({ at }) => at ?? []);
  if (times.length === 0) return [];
  const ready = states.filter((state) => state.ready).length;
  const changedAt = Number(metadata?.annotations?.[CHANGED] ?? 0);
  // Times are precise to the second: within one, ready comes after not ready.
  const at = Math.max(...times, changedAt) + (serves ? 1 : 0);
  const replicas = serves ? Math.min(ready, spec?.instances ?? 1) : 0;
  return [{ at, replicas, size: metadata?.annotations?.[SIZE] as ServiceSize }];
}

/** Returns whether its primary takes connections, and no other server is to take over; pure. */
export function isServing(cluster: PostgresClusterObject, pods: V1Pod[]): boolean {
  const primary = primaryOf(cluster, pods);
  const { currentPrimary, targetPrimary } = cluster.status ?? {};
  return primary !== undefined && readiness(primary).ready && currentPrimary === targetPrimary;
}

const primaryOf = ({ status }: PostgresClusterObject, pods: V1Pod[]) =>
  pods.find(({ metadata }) => metadata?.name !== undefined && metadata.name === status?.currentPrimary);

function problemOf(cluster: PostgresClusterObject, pods: V1Pod[], now: number) {
  if (isServing(cluster, pods)) return undefined;
  const { phase, phaseReason, currentPrimary, targetPrimary } = cluster.status ?? {};
  const primary = primaryOf(cluster, pods);
  if (phase !== undefined && BROKEN_PHASES.includes(phase))
    return { broken: true, message: `${phase}. ${quote(phaseReason ?? "")}`.trim() };
  if (currentPrimary && currentPrimary !== targetPrimary) return { broken: false, message: TAKES_OVER };
  // Of a server that has never served, the pod that makes its data.
  const pod = primary ?? pods.toSorted((one, other) => createdAt(other) - createdAt(one))[0];
  if (!pod) return { broken: false, message: currentPrimary ? REPLACED : NOT_BEGUN };
  return isFull(pod) ? { broken: true, message: FULL } : findProblem(pod, now);
}

/** Returns whether an instance that is not ready ended last because its volume is full. */
function isFull({ status }: V1Pod): boolean {
  const { state, lastState } = status?.containerStatuses?.find(({ name }) => name === "postgres") ?? {};
  return (state?.terminated ?? lastState?.terminated)?.exitCode === NO_ROOM_EXIT;
}

/** Returns whether all instances run and have the image of their Cluster; pure. */
export function isWhole({ spec }: PostgresClusterObject, pods: V1Pod[]): boolean {
  const instances = instancesOf(pods).filter((pod) => readiness(pod).ready);
  const images = instances.map((pod) => pod.spec?.containers.find(({ name }) => name === "postgres")?.image);
  return instances.length === spec?.instances && images.every((image) => image === spec.imageName);
}

/** Pods of Jobs, which make the data of an instance, have no role. */
const instancesOf = (pods: V1Pod[]) =>
  pods.filter(
    ({ metadata }) =>
      metadata?.labels?.["cnpg.io/instanceName"] !== undefined && !metadata.labels["cnpg.io/jobRole"],
  );

const createdAt = ({ metadata }: V1Pod) => new Date(metadata?.creationTimestamp ?? 0).getTime();
const quote = (words: string) => toStorableText(words).slice(0, MAX_QUOTE);
