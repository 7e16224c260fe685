import { setTimeout as delay } from "node:timers/promises";
import type { V1ContainerStatus, V1Job, V1Pod } from "@kubernetes/client-node";
import type { Kube } from "../../../kube/client.ts";
import { Job, Pod, Secret } from "../../../kube/kinds.ts";
import { namespaceOf, selector } from "../../../kube/names.ts";
import { BackupRefusal } from "../../../terms/backup-refusal.ts";
import type { PlacedAddon } from "../../port.ts";
import { programFailure } from "../../program-failure.ts";
import { CANNOT_READ } from "../../redis-snapshot.ts";
import {
  COPIER,
  type Copy,
  type CopyKind,
  type CopyOptions,
  copyJob,
  copyLabels,
  copyName,
  copySecret,
  DATABASE,
  kindOf,
} from "./copy-job.ts";
import type { CopyReport, CopyResult } from "./copy-request.ts";
import { UNREADABLE } from "./scripts.ts";

const POLL_MS = 1_000;
const REMOVE_MS = 60_000;
/** For a node, and for the images. */
const START_MS = 600_000;

/**
 * Copies the data of an addon by a Job in its environment, and returns what the program reports. One that runs is ended
 * first: whoever began it has lost its lease. Throws a `BackupRefusal` where the database says what its user can change.
 */
export async function runCopy(
  kube: Kube,
  copy: Copy,
  options: CopyOptions,
  signal: AbortSignal,
): Promise<CopyResult> {
  const kind = kindOf(copy);
  const { name, namespace, podsOf, remove } = jobOf(kube, copy.addon, kind, options);

  async function follow(): Promise<CopyResult> {
    let startBy = Date.now() + START_MS;
    for (; ; await delay(POLL_MS, undefined, { signal })) {
      const job = await kube.get(Job, name, namespace);
      const [pod] = await podsOf();
      const end = job && pod && endOf(job, pod);
      if (end instanceof Error) throw end;
      if (end) return end;
      if (!job || (hasEnded(job) && !pod)) throw new Error("the Job of a copy was removed");
      const waiting = waitingOf(pod);
      if (waiting === undefined) startBy = Date.now() + START_MS;
      else if (Date.now() > startBy) throw new Error(`the pod of a copy does not start: ${waiting}`);
    }
  }

  signal.throwIfAborted();
  await remove();
  const job = await kube.create(Job, copyJob(copy, options));
  const end = () => remove(job.metadata?.uid);
  try {
    await kube.apply(Secret, copySecret(copy, options, job));
    const report = await follow();
    // Not awaited: what was copied is recorded at once, because it is copied again otherwise. The next one looks too.
    end().catch(() => {});
    return report;
  } catch (error) {
    await end().catch(() => {});
    throw error;
  }
}

/** Removes a Job of an addon that may be gone itself, with its namespace. Idempotent. */
export function removeCopy(
  kube: Kube,
  addon: PlacedAddon,
  kind: CopyKind,
  options: Pick<CopyOptions, "namespacePrefix">,
): Promise<void> {
  return jobOf(kube, addon, kind, options).remove();
}

function jobOf(
  kube: Kube,
  { serviceId, environmentId }: PlacedAddon,
  kind: CopyKind,
  { namespacePrefix }: Pick<CopyOptions, "namespacePrefix">,
) {
  const namespace = namespaceOf(namespacePrefix, environmentId);
  const name = copyName(serviceId, kind);

  const podsOf = async () =>
    (await kube.list(Pod, { namespace, labels: selector(copyLabels(serviceId, kind)) })).items;

  /** Removes the Job, or only the one with this uid; resolves when none of its pods is left. */
  async function remove(uid?: string): Promise<void> {
    const preconditions = uid === undefined ? {} : { preconditions: { uid } };
    await kube.remove(Job, name, namespace, { propagationPolicy: "Foreground", ...preconditions });
    for (const until = Date.now() + REMOVE_MS; ; await delay(POLL_MS)) {
      const job = await kube.get(Job, name, namespace);
      if (job && uid !== undefined && job.metadata?.uid !== uid) return;
      if (!job && (await podsOf()).length === 0) return;
      if (Date.now() > until) throw new Error(`the Job ${name} was not removed in time`);
    }
  }

  return { name, namespace, podsOf, remove };
}

const hasEnded = ({ status }: V1Job) =>
  status?.conditions?.some(({ type, status: is }) => ["Complete", "Failed"].includes(type) && is === "True");

const statusesOf = (pod: V1Pod | undefined): V1ContainerStatus[] => [
  ...(pod?.status?.initContainerStatuses ?? []),
  ...(pod?.status?.containerStatuses ?? []),
];

/** Returns what a pod waits for: a node, or an image. Undefined when it does not. */
function waitingOf(pod: V1Pod | undefined): string | undefined {
  if (!pod) return "it has not been created";
  const placed = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (placed?.status !== "True") return placed?.message ?? "it has no node";
  const waiting = statusesOf(pod).map(({ state }) => state?.waiting);
  // Those that wait for others.
  const stuck = waiting.find((one) => one !== undefined && one.reason !== "PodInitializing");
  return stuck && (stuck.message ?? stuck.reason ?? "a container does not start");
}

/** Returns what a copy reports, or why it failed; undefined while it runs. Pure. */
export function endOf(job: V1Job, pod: V1Pod): CopyResult | Error | undefined {
  if (!hasEnded(job)) return undefined;
  const ends = new Map(statusesOf(pod).map(({ name, state }) => [name, state?.terminated]));
  const [copier, database] = [ends.get(COPIER), ends.get(DATABASE)];
  // Nothing is copied where there is no program for it.
  const report = ends.has(COPIER) ? reportIn(copier?.message) : { fetched: true as const };
  const isDone = ends.size > 0 && [...ends.values()].every((one) => one?.exitCode === 0);
  if (report && !("problem" in report) && isDone) return { ...report, ...countedIn(database?.message) };
  if (database?.message?.trim() === UNREADABLE) return new BackupRefusal(CANNOT_READ);
  const problem = report && "problem" in report ? report.problem : undefined;
  // Each of the two fails with the other.
  if (database?.message) {
    const failure = programFailure(database.message, database.exitCode, copier?.exitCode === 0);
    if (copier && !(failure instanceof BackupRefusal))
      failure.message += `; the program that copies: ${problem ?? copier.reason}`;
    return failure;
  }
  const reason = pod.status?.reason ?? database?.reason ?? copier?.reason ?? "no reason was given";
  return new Error(`a copy failed: ${problem ?? reason}`);
}

function countedIn(message: string | undefined): { counted?: number } {
  const [counted] = /^\d+$/m.exec(message?.trim() ?? "") ?? [];
  return counted === undefined ? {} : { counted: Number(counted) };
}

function reportIn(message: string | undefined): CopyReport | undefined {
  try {
    return message === undefined ? undefined : (JSON.parse(message) as CopyReport);
  } catch {
    // Node.js, or the container runtime, wrote something else.
    return undefined;
  }
}
