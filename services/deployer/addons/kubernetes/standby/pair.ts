import type { V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import { PASSWORD, PRIMARY, REPLACED, REPLICATION, RESTORED, SIZE } from "../server/annotations.ts";
import type { Pair } from "../server/manifests.ts";

/** What the pods of servers are to be like, by their template. */
export type Template = { annotations: Record<string, string>; image?: string };

/** Returns which server of a StatefulSet is the primary; undefined of one without a standby. */
export function pairOf(set: Pick<V1StatefulSet, "metadata" | "spec"> | undefined): Pair | undefined {
  const primary = set?.spec?.template?.metadata?.annotations?.[PRIMARY];
  if (primary === undefined) return undefined;
  const { [REPLACED]: replaced } = set?.metadata?.annotations ?? {};
  return { primary: primary === "1" ? 1 : 0, ...(replaced !== undefined && { replaced }) };
}

export function templateOf({ spec }: Pick<V1StatefulSet, "spec">): Template {
  const { metadata, spec: pod } = spec?.template ?? {};
  return { annotations: metadata?.annotations ?? {}, image: pod?.containers[0]?.image };
}

/** Whether something is left to do with the servers that a StatefulSet has, or had; pure. */
export function isUnsettled(set: V1StatefulSet, pods: V1Pod[]): boolean {
  if (set.spec?.persistentVolumeClaimRetentionPolicy?.whenScaled === "Delete") return true;
  const pair = pairOf(set);
  if (!pair) return false;
  const template = templateOf(set);
  return pods.some((pod) => pod.metadata?.uid === pair.replaced || !isCurrent(pod, template));
}

/** Whether a pod has what the template says; except who is the primary, which it notices by itself. */
export function isCurrent(pod: V1Pod, template: Template): boolean {
  const image = pod.spec?.containers[0]?.image;
  return isAlike(pod, template, [PASSWORD, SIZE, RESTORED, REPLICATION]) && image === template.image;
}

/** Whether a pod has these annotations of the template. */
export function isAlike({ metadata }: V1Pod, { annotations }: Template, names: string[]): boolean {
  return names.every((name) => metadata?.annotations?.[name] === annotations[name]);
}
